#pragma once
#include "core/cuda/each.cuh"

/// Walks over x [rows, columns], the column varying fastest, where each column has values of its own (a channel's
/// scale, a bias) or gets some (its sum). A thread stays with its columns, so that their values are in registers.
namespace laconic::cuda {

/// How columns are dealt out. Blocks: grid.x beside each other, grid.y after each other. The threads of a block:
/// `across` beside each other, each with kWide columns, and `down` rows at a time; those that remain do nothing. It
/// depends on the shape and on `wide` (on whether the data is aligned to 16 bytes), so that sums have one order on
/// every device.
struct ColumnWalk {
  std::int64_t rows, columns, rows_per_chunk;
  int across, down;
  unsigned tiles, chunks;

  ColumnWalk(std::int64_t rows, std::int64_t columns, int wide, std::int64_t blocks) : rows(rows), columns(columns) {
    const std::int64_t groups = std::max<std::int64_t>(1, columns / wide), beside = (groups + kWarp - 1) / kWarp;
    tiles = static_cast<unsigned>(beside);
    across = static_cast<int>((groups + beside - 1) / beside);
    down = kBlock / across;
    const std::int64_t most = std::max<std::int64_t>(1, blocks / beside), useful = (rows + 4 * down - 1) / (4 * down);
    rows_per_chunk = (rows + std::min(most, useful) - 1) / std::max<std::int64_t>(1, std::min(most, useful));
    chunks = static_cast<unsigned>(rows == 0 ? 0 : (rows + rows_per_chunk - 1) / rows_per_chunk);
  }
  dim3 grid() const { return dim3(tiles, chunks); }
};

/// One thread's share of a walk.
template <int kWide>
struct ColumnThread {
  std::int64_t column, row, end;
  __device__ explicit ColumnThread(const ColumnWalk& w) {
    const int x = threadIdx.x % w.across, y = threadIdx.x / w.across;
    column = (static_cast<std::int64_t>(blockIdx.x) * w.across + x) * kWide;
    row = blockIdx.y * w.rows_per_chunk;
    end = row + w.rows_per_chunk < w.rows ? row + w.rows_per_chunk : w.rows;
    row += y;
    if (column >= w.columns || y >= w.down) end = row;
  }
};

/// f.at<kWide>(column) gives a function object that is called with the place of each kWide elements of its columns.
template <int kWide, class F>
__global__ void __launch_bounds__(kBlock) walk_columns_kernel(ColumnWalk w, F f) {
  const ColumnThread<kWide> thread(w);
  if (thread.row >= thread.end) return;
  const auto g = f.template at<kWide>(thread.column);
#pragma unroll 4
  for (std::int64_t row = thread.row; row < thread.end; row += w.down) g(row * w.columns + thread.column);
}
/// F::kWide columns at a time where the arrays are `aligned` to that many.
template <class F>
void walk_columns(std::int64_t rows, std::int64_t columns, bool aligned, const F& f) {
  if (rows * columns == 0) return;
  const int wide = aligned && columns % F::kWide == 0 ? F::kWide : 1;
  const ColumnWalk w(rows, columns, wide, 4096);
  launch(wide > 1 ? walk_columns_kernel<F::kWide, F> : walk_columns_kernel<1, F>, w.grid(), kBlock, w, f);
}

/// partial[k][chunk][column] = sum k of F::kSums over the rows of a chunk. f.at<kWide>(column) gives a function object
/// that is called with the place of each kWide elements and the sums so far, float [kSums][kWide]. Where it writes
/// nothing (not F::kStores), four rows are loaded before the first is added.
template <int kWide, class F>
__global__ void __launch_bounds__(kBlock) column_sums_kernel(float* partial, ColumnWalk w, F f) {
  constexpr int kSums = F::kSums;
  __shared__ float shared[kSums][kBlock * kWide];
  const ColumnThread<kWide> thread(w);
  float sums[kSums][kWide] = {};
  if (thread.row < thread.end) {
    const auto g = f.template at<kWide>(thread.column);
    std::int64_t row = thread.row;
    if constexpr (!F::kStores)
      for (; row + 3 * static_cast<std::int64_t>(w.down) < thread.end; row += 4 * static_cast<std::int64_t>(w.down))
#pragma unroll
        for (int u = 0; u < 4; ++u) g((row + u * w.down) * w.columns + thread.column, sums);
#pragma unroll 4
    for (; row < thread.end; row += w.down) g(row * w.columns + thread.column, sums);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int k = 0; k < kWide; ++k) shared[s][threadIdx.x * kWide + k] = sums[s][k];
  // The lower half of the rows takes the upper half in, until one is left.
  const int y = threadIdx.x / w.across;
  for (int left = w.down; left > 1;) {
    __syncthreads();
    const int half = (left + 1) / 2;
    if (y < left - half)
#pragma unroll
      for (int s = 0; s < kSums; ++s)
#pragma unroll
        for (int k = 0; k < kWide; ++k)
          shared[s][threadIdx.x * kWide + k] += shared[s][(threadIdx.x + half * w.across) * kWide + k];
    left = half;
  }
  if (y == 0 && thread.column < w.columns)
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
      for (int k = 0; k < kWide; ++k)
        partial[(static_cast<std::int64_t>(s) * w.chunks + blockIdx.y) * w.columns + thread.column + k] =
            shared[s][threadIdx.x * kWide + k];
}

/// Columns of a block that finishes sums: 32 bytes, which a GPU reads at once. With few columns there still are some
/// blocks.
inline constexpr int kFinished = 8;

/// f(column, totals) with double totals[kSums], added over the chunks in a fixed order. Blocks are kFinished columns
/// wide and a power of two high.
template <int kSums, class F>
__global__ void __launch_bounds__(1024)
    finish_columns_kernel(const float* partial, unsigned chunks, std::int64_t columns, F f) {
  __shared__ double shared[kSums][1024];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kFinished + threadIdx.x;
  const int at = threadIdx.y * kFinished + threadIdx.x;
  double totals[kSums] = {};
  if (column < columns)
#pragma unroll 4
    for (unsigned i = threadIdx.y; i < chunks; i += blockDim.y)
#pragma unroll
      for (int s = 0; s < kSums; ++s)
        totals[s] += partial[(static_cast<std::int64_t>(s) * chunks + i) * columns + column];
#pragma unroll
  for (int s = 0; s < kSums; ++s) shared[s][at] = totals[s];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
#pragma unroll
      for (int s = 0; s < kSums; ++s) shared[s][at] += shared[s][at + half * kFinished];
  }
  if (threadIdx.y > 0 || column >= columns) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) totals[s] = shared[s][at];
  f(column, totals);
}

/// Sums over the rows by f, as in column_sums_kernel, then done(column, totals) for each column. Floats within a chunk
/// and doubles across, in an order that depends on the shape and on `aligned` (to F::kWide elements).
template <class F, class Done>
void sum_columns(std::int64_t rows, std::int64_t columns, bool aligned, const F& f, const Done& done) {
  if (columns == 0) return;
  const int wide = aligned && columns % F::kWide == 0 ? F::kWide : 1;
  const ColumnWalk w(rows, columns, wide, 1024);
  const Temporary<float> partial(static_cast<std::size_t>(F::kSums * w.chunks * columns));
  launch(wide > 1 ? column_sums_kernel<F::kWide, F> : column_sums_kernel<1, F>, w.grid(), kBlock, partial.data(), w, f);
  unsigned down = 1;
  while (down < 128 && down < w.chunks) down *= 2;
  launch(finish_columns_kernel<F::kSums, Done>, static_cast<unsigned>((columns + kFinished - 1) / kFinished),
         dim3(kFinished, down), partial.data(), w.chunks, columns, done);
}

}  // namespace laconic::cuda
