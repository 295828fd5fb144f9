#include "core/cuda/launch.cuh"
#include "core/kernels/images.h"

namespace laconic::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

/// y[n][j][i] = x[n][i][j] for i < rows, j < columns, by tiles: both sides move whole runs of a tile's side.
template <class Real>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(Real* y, const Real* x, std::int64_t n, std::int64_t rows, std::int64_t columns) {
  __shared__ Real tile[kTile][kTile + 1];
  const std::int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  for (std::int64_t t = blockIdx.x; t < n * across * down; t += gridDim.x) {
    const std::int64_t image = t / (across * down), i0 = t / across % down * kTile, j0 = t % across * kTile;
    const Real* from = x + image * rows * columns;
    Real* to = y + image * rows * columns;
#pragma unroll
    for (int k = threadIdx.y; k < kTile; k += kTileRows)
      if (i0 + k < rows && j0 + threadIdx.x < columns)
        tile[k][threadIdx.x] = from[(i0 + k) * columns + j0 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = threadIdx.y; k < kTile; k += kTileRows)
      if (j0 + k < columns && i0 + threadIdx.x < rows) to[(j0 + k) * rows + i0 + threadIdx.x] = tile[threadIdx.x][k];
    __syncthreads();
  }
}

template <class Real>
void transpose(Real* y, const Real* x, std::int64_t n, std::int64_t rows, std::int64_t columns) {
  if (rows < 8 || columns < 8) {  // a tile would be almost empty; the few long runs share their lines in the cache
    const Divisor by_rows(rows), by_columns(columns);
    return map(n * rows * columns, [=] __device__(std::int64_t at) {
      const auto [column, i] = by_rows(at);
      const auto [image, j] = by_columns(column);
      y[at] = x[(image * rows + i) * columns + j];
    });
  }
  const std::int64_t tiles = n * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  launch(transpose_kernel<Real>, static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20)), dim3(kTile, kTileRows),
         y, x, n, rows, columns);
}

}  // namespace

template <class Real>
void convert_layout(Real* y, Layout to, const Real* x, Layout from, std::int64_t n, std::int64_t c, std::int64_t hw) {
  require<ShapeError>(to != Layout::blocked16 && from != Layout::blocked16,
                      "layout: blocked16 is for the CPU alone. Convert there, and copy then.");
  to == Layout::channels_last ? transpose(y, x, n, c, hw) : transpose(y, x, n, hw, c);
}

template void convert_layout(float*, Layout, const float*, Layout, std::int64_t, std::int64_t, std::int64_t);
template void convert_layout(BFloat16*, Layout, const BFloat16*, Layout, std::int64_t, std::int64_t, std::int64_t);

}  // namespace laconic::cuda
