#include "core/cuda/bias.h"
#include "core/cuda/each.cuh"
#include "core/cuda/rounding.cuh"

namespace laconic::cuda {
namespace {

template <class Index, int kWide, class From>
__global__ void __launch_bounds__(kBlock)
    add_bias_kernel(float* y, const From* x, const float* b, Index rows, Index columns, Index stride, bool relu) {
  const Index per_row = columns / kWide, groups = rows * per_row;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups;
       i += static_cast<Index>(gridDim.x) * blockDim.x) {
    const Index row = i / per_row, column = (i - row * per_row) * kWide, at = row * stride + column;
    const Pack<From, kWide> in = load_pack<kWide>(x + at);
    Pack<float, kWide> bias{}, sum;
    if (b) bias = load_pack<kWide>(b + column);
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const float v = widened(in.v[k]) + bias.v[k];
      sum.v[k] = relu && v < 0.0f ? 0.0f : v;
    }
    store_pack<kWide>(y + at, sum);
  }
}

template <class Index, class From>
void start(float* y, const From* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
           bool relu) {
  const bool wide = columns % 4 == 0 && stride % 4 == 0 && aligned_for<4>(y) && aligned_for<4>(x) && aligned_for<4>(b);
  launch(wide ? add_bias_kernel<Index, 4, From> : add_bias_kernel<Index, 1, From>,
         blocks_for(rows * columns / (wide ? 4 : 1)), kBlock, y, x, b, static_cast<Index>(rows),
         static_cast<Index>(columns), static_cast<Index>(stride), relu);
}

template <class From>
void add_any_bias(float* y, const From* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                  bool relu) {
  if (rows == 0 || columns == 0) return;
  if (rows * stride < std::int64_t{1} << 31)  // 32-bit divisions take a third of the time
    start<unsigned>(y, x, b, rows, columns, stride, relu);
  else
    start<std::int64_t>(y, x, b, rows, columns, stride, relu);
}

}  // namespace

void add_bias(float* y, const float* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu) {
  add_any_bias(y, x, b, rows, columns, stride, relu);
}
void add_bias(float* y, const BFloat16* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu) {
  add_any_bias(y, x, b, rows, columns, stride, relu);
}

}  // namespace laconic::cuda
