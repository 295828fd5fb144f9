#include "core/cuda/each.cuh"
#include "core/kernels/products.h"

namespace laconic::cuda {
namespace {

template <class Index, int kWide, class Real>
__global__ void __launch_bounds__(kBlock)
    add_bias_kernel(Real* y, const Real* x, const float* b, Index rows, Index columns, Index stride, bool relu) {
  const Index per_row = columns / kWide, groups = rows * per_row;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups;
       i += static_cast<Index>(gridDim.x) * blockDim.x) {
    const Index row = i / per_row, column = (i - row * per_row) * kWide, at = row * stride + column;
    const Pack<float, kWide> in = load_pack<kWide>(x + at);
    Pack<float, kWide> bias{}, sum;
    if (b) bias = load_pack<kWide>(b + column);
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const float v = in.v[k] + bias.v[k];
      sum.v[k] = relu && v < 0.0f ? 0.0f : v;
    }
    store_pack<kWide>(y + at, sum);
  }
}

template <class Index, class Real>
void start(Real* y, const Real* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
           bool relu) {
  constexpr int kWide = kPerMove<Real>;
  const bool wide = columns % kWide == 0 && stride % kWide == 0 && aligned_for<kWide>(y, x, b);
  launch(wide ? add_bias_kernel<Index, kWide, Real> : add_bias_kernel<Index, 1, Real>,
         blocks_for(rows * columns / (wide ? kWide : 1)), kBlock, y, x, b, static_cast<Index>(rows),
         static_cast<Index>(columns), static_cast<Index>(stride), relu);
}

}  // namespace

void add_bias(Product y, Factor x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu) {
  if (rows == 0 || columns == 0) return;
  const auto run = [&]<class Real>(Real* to) {
    const auto* from = static_cast<const Real*>(x.data);
    if (rows * stride < std::int64_t{1} << 31)  // 32-bit divisions take a third of the time
      start<unsigned>(to, from, b, rows, columns, stride, relu);
    else
      start<std::int64_t>(to, from, b, rows, columns, stride, relu);
  };
  y.dtype == DType::bf16 ? run(static_cast<BFloat16*>(y.data)) : run(static_cast<float*>(y.data));
}

// Threads go along what is written; what is read is small enough to stay in the L2 cache between neighbours.

template <class To>
void pack_weights(To* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  const auto channels = static_cast<unsigned>(I), kernel = static_cast<unsigned>(K);
  map(O * I * K, [=] __device__(std::int64_t at) {
    const auto i = static_cast<unsigned>(at);
    const unsigned place = i / channels, c = i - place * channels, o = place / kernel, k = place - o * kernel;
    packed[i] = Computed<To>::written(plain[(o * channels + c) * kernel + k]);
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
    const float value = Computed<From>::read(packed[(o * kernel + k) * channels + c]);
    plain[i] = add ? plain[i] + value : value;
  });
}
template void unpack_weights(float*, const float*, std::int64_t, std::int64_t, std::int64_t, bool);
template void unpack_weights(float*, const BFloat16*, std::int64_t, std::int64_t, std::int64_t, bool);

}  // namespace laconic::cuda
