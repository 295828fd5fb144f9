#include "core/cuda/each.cuh"
#include "core/kernels/products.h"

namespace laconic::cuda {
namespace {

__device__ inline void put(float* to, float value) { *to = value; }
__device__ inline void put(BFloat16* to, float value) { *to = rounded(value); }
__device__ inline float got(BFloat16 x) { return widened(x); }
__device__ inline float got(float x) { return x; }

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
      const float v = got(in.v[k]) + bias.v[k];
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

}  // namespace

template <class From>
void add_bias(float* y, const From* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu) {
  if (rows == 0 || columns == 0) return;
  if (rows * stride < std::int64_t{1} << 31)  // 32-bit divisions take a third of the time
    start<unsigned>(y, x, b, rows, columns, stride, relu);
  else
    start<std::int64_t>(y, x, b, rows, columns, stride, relu);
}
template void add_bias(float*, const float*, const float*, std::int64_t, std::int64_t, std::int64_t, bool);
template void add_bias(float*, const BFloat16*, const float*, std::int64_t, std::int64_t, std::int64_t, bool);

// Threads go along what is written; what is read is small enough to stay in the L2 cache between neighbours.

template <class To>
void pack_weights(To* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  const auto channels = static_cast<unsigned>(I), kernel = static_cast<unsigned>(K);
  map(O * I * K, [=] __device__(std::int64_t at) {
    const auto i = static_cast<unsigned>(at);
    const unsigned place = i / channels, c = i - place * channels, o = place / kernel, k = place - o * kernel;
    put(packed + i, plain[(o * channels + c) * kernel + k]);
  });
}
template void pack_weights(float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void pack_weights(BFloat16*, const float*, std::int64_t, std::int64_t, std::int64_t);

template <class From>
void unpack_weights(float* plain, const From* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add) {
  const auto channels = static_cast<unsigned>(I), kernel = static_cast<unsigned>(K);
  map(O * I * K, [=] __device__(std::int64_t at) {
    const auto i = static_cast<unsigned>(at);
    const unsigned place = i / kernel, k = i - place * kernel, o = place / channels, c = place - o * channels;
    const float value = got(packed[(o * kernel + k) * channels + c]);
    plain[i] = add ? plain[i] + value : value;
  });
}
template void unpack_weights(float*, const float*, std::int64_t, std::int64_t, std::int64_t, bool);
template void unpack_weights(float*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t, bool);

}  // namespace laconic::cuda
