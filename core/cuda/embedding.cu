#include "core/cuda/each.cuh"
#include "core/kernels/rows.h"

namespace laconic::cuda {
namespace {

template <int kWide>
void forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t vocabulary,
             std::int64_t dim) {
  Report* told = report();
  const std::int64_t groups = dim / kWide;
  map(n * groups, [=] __device__(std::int64_t at) {
    const std::int64_t i = at / groups, row = index[i], column = at % groups * kWide;
    Pack<float, kWide> p{};
    if (row >= 0 && row < vocabulary)
      p = load_pack<kWide>(w + row * dim + column);
    else if (column == 0)
      tell(told, Finding::index, i, row, vocabulary);
    store_pack<kWide>(y + i * dim + column, p);
  });
}

/// One warp for each index and 32 kWide columns. The first of equal indices adds up what belongs to all of them, in
/// their order, so that no sum depends on which warp comes when.
template <int kWide>
__global__ void __launch_bounds__(kBlock)
    backward_kernel(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                    std::int64_t rows, std::int64_t dim) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (i >= n) return;
  const std::int64_t mine = index[i];
  if (mine < first || mine >= first + rows) return;
  for (std::int64_t j = lane; j - lane < i; j += kWarp)
    if (__any_sync(kAllLanes, j < i && index[j] == mine)) return;  // an earlier one does it
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane) * kWide;
  const bool inside = column < dim;
  float* to = dw + (mine - first) * dim + column;
  Pack<float, kWide> sum{};
  if (inside) sum = load_pack<kWide>(to);
  for (std::int64_t j0 = i; j0 < n; j0 += kWarp) {
    unsigned equal = __ballot_sync(kAllLanes, j0 + lane < n && index[j0 + lane] == mine);
    while (equal != 0) {
      const int next = __ffs(static_cast<int>(equal)) - 1;
      equal &= equal - 1;
      if (!inside) continue;
      const Pack<float, kWide> d = load_pack<kWide>(dy + (j0 + next) * dim + column);
#pragma unroll
      for (int k = 0; k < kWide; ++k) sum.v[k] += d.v[k];
    }
  }
  if (inside) store_pack<kWide>(to, sum);
}

}  // namespace

void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t vocabulary,
                       std::int64_t dim) {
  const bool wide = dim % 4 == 0 && aligned_for<4>(y, w);
  wide ? forward<4>(y, w, index, n, vocabulary, dim) : forward<1>(y, w, index, n, vocabulary, dim);
}

void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim) {
  const int wide = dim % 4 == 0 && aligned_for<4>(dw, dy) ? 4 : 1;
  const dim3 grid(static_cast<unsigned>((n + kBlock / kWarp - 1) / (kBlock / kWarp)),
                  static_cast<unsigned>((dim + kWarp * wide - 1) / (kWarp * wide)));
  launch(wide == 4 ? backward_kernel<4> : backward_kernel<1>, grid, kBlock, dw, dy, index, n, first, rows, dim);
}

}  // namespace laconic::cuda
