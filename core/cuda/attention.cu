#include <cfloat>

#include "core/cuda/each.cuh"
#include "core/kernels/attention.h"
#include "core/base/random.h"

namespace laconic::cuda {
namespace {

// A block computes tiles of 32 queries by 32 keys of one head. A thread has four elements of a tile: row `r`, and every
// eighth column from `c` on. What is summed over the steps goes on in the result itself, which lies in a cache.
constexpr int kTile = 32, kAcross = 8, kEach = kTile / kAcross;
static_assert(kTile * kAcross == kBlock);
using Tile = float[kTile][kTile + 1];

/// One head of one sample, from a block's number.
struct Place {
  std::int64_t head, sample, tile, steps, width, dim;
  int r, c;
  __device__ explicit Place(const AttentionSizes& s)
      : steps(s.steps), width(s.width), dim(s.heads * s.width), r(threadIdx.x / kAcross), c(threadIdx.x % kAcross) {
    const std::int64_t tiles = (s.steps + kTile - 1) / kTile, unit = blockIdx.x / tiles;
    tile = blockIdx.x % tiles * kTile, head = unit % s.heads, sample = unit / s.heads;
  }
  /// Where q (0), k (1) or v (2) of a step begins.
  __device__ std::int64_t of_qkv(int which, std::int64_t step) const {
    return ((sample * steps + step) * 3 + which) * dim + head * width;
  }
  __device__ std::int64_t of_y(std::int64_t step) const { return (sample * steps + step) * dim + head * width; }
  __device__ std::int64_t of_row(const AttentionSizes& s, std::int64_t step) const {
    return (sample * s.heads + head) * steps + step;
  }
  /// What dropout multiplies a probability by.
  __device__ float factor(const AttentionDropout& d, std::int64_t row, std::int64_t column) const {
    if (d.mask.threshold == 0) return 1.0f;
    const std::int64_t e = (head * steps + row) * ((steps + 63) / 64 * 64) + column;
    const auto words = philox({static_cast<std::uint32_t>(e / 64 * 16 + e % 16),
                               d.mask.first_row + static_cast<std::uint32_t>(sample), d.mask.step, d.mask.layer},
                              d.mask.key);
    return words[static_cast<std::size_t>(e / 16 % 4)] >= d.mask.threshold ? d.scale : 0.0f;
  }
};

/// Reads rows x columns that are there, zeros beyond them. Between two barriers.
__device__ void read_tile(Tile& to, const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  __syncthreads();
  for (int i = threadIdx.x; i < kTile * kTile; i += kBlock) {
    const int row = i / kTile, column = i % kTile;
    to[row][column] = row < rows && column < columns ? from[row * stride + column] : 0.0f;
  }
  __syncthreads();
}

/// sums = this thread's elements of x y', x and y being rows of `width`.
__device__ void dot_rows(float (&sums)[kEach], const Place& at, Tile& a, Tile& b, const float* x, std::int64_t x_stride,
                         std::int64_t x_rows, const float* y, std::int64_t y_stride, std::int64_t y_rows) {
  for (float& sum : sums) sum = 0;
  for (std::int64_t d = 0; d < at.width; d += kTile) {
    read_tile(a, x + d, x_stride, x_rows, at.width - d);
    read_tile(b, y + d, y_stride, y_rows, at.width - d);
    for (int i = 0; i < kTile; ++i)
#pragma unroll
      for (int k = 0; k < kEach; ++k) sums[k] += a[at.r][i] * b[at.c + k * kAcross][i];
  }
}

/// y [rows, width] = keep y + scale a x, or a' x if `turned`; x : [x_rows, width]. keep is of this thread's row.
template <bool kTurned>
__device__ void add_product(float* y, std::int64_t y_stride, std::int64_t rows, float keep, float scale,
                            const Place& at, const Tile& a, Tile& b, const float* x, std::int64_t x_stride,
                            std::int64_t x_rows) {
  for (std::int64_t d = 0; d < at.width; d += kTile) {
    read_tile(b, x + d, x_stride, x_rows, at.width - d);
    float sums[kEach] = {};
    for (int i = 0; i < kTile; ++i)
#pragma unroll
      for (int k = 0; k < kEach; ++k) sums[k] += (kTurned ? a[i][at.r] : a[at.r][i]) * b[i][at.c + k * kAcross];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const std::int64_t column = d + at.c + k * kAcross;
      if (at.r >= rows || column >= at.width) continue;
      float& to = y[at.r * y_stride + column];
      to = (keep == 0.0f ? 0.0f : keep * to) + scale * sums[k];
    }
  }
}

/// Over the threads of a row: eight lanes of a warp.
template <class Combine>
__device__ float row_reduce(float value, Combine combine) {
  for (int by = kAcross / 2; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(kAllLanes, value, by));
  return value;
}

__global__ void __launch_bounds__(kBlock)
    attention_kernel(float* y, float* log_sums, const float* qkv, AttentionSizes s, AttentionDropout dropout) {
  __shared__ Tile a, b, p;
  const Place at(s);
  const std::int64_t rows = at.steps - at.tile, row = at.tile + at.r;
  const float scale = 1.0f / sqrtf(static_cast<float>(at.width));
  float most = -FLT_MAX, sum = 0;
  for (std::int64_t k0 = 0; k0 <= at.tile; k0 += kTile) {
    float e[kEach], next = most, part = 0;
    dot_rows(e, at, a, b, qkv + at.of_qkv(0, at.tile), 3 * at.dim, rows, qkv + at.of_qkv(1, k0), 3 * at.dim,
             at.steps - k0);
    for (int k = 0; k < kEach; ++k) {
      e[k] *= scale;
      if (k0 + at.c + k * kAcross <= row && e[k] > next) next = e[k];
    }
    next = row_reduce(next, Max{});
    const float change = expf(most - next);
    for (int k = 0; k < kEach; ++k) {
      const std::int64_t column = k0 + at.c + k * kAcross;
      e[k] = column <= row ? expf(e[k] - next) : 0.0f;
      part += e[k];
      p[at.r][at.c + k * kAcross] = column <= row ? e[k] * at.factor(dropout, row, column) : 0.0f;
    }
    sum = sum * change + row_reduce(part, Sum{});
    most = next;
    add_product<false>(y + at.of_y(at.tile), at.dim, rows, k0 > 0 ? change : 0.0f, 1.0f, at, p, b,
                       qkv + at.of_qkv(2, k0), 3 * at.dim, at.steps - k0);
  }
  if (at.r >= rows) return;
  for (std::int64_t d = at.c; d < at.width; d += kAcross) y[at.of_y(row) + d] /= sum;
  if (at.c == 0) log_sums[at.of_row(s, row)] = most + logf(sum);
}

struct BackwardInputs {
  const float *dy, *log_sums, *delta, *qkv;
};

/// p = this tile's probabilities, by dropout's factors, and ds = the gradient of its scores.
__device__ void tile_backward(Tile& p, Tile& ds, Tile& a, Tile& b, const BackwardInputs& in, const AttentionSizes& s,
                              const AttentionDropout& dropout, const Place& at, std::int64_t i0, std::int64_t k0) {
  const float scale = 1.0f / sqrtf(static_cast<float>(at.width));
  const std::int64_t row = i0 + at.r;
  float scores[kEach], dp[kEach];
  dot_rows(scores, at, a, b, in.qkv + at.of_qkv(0, i0), 3 * at.dim, at.steps - i0, in.qkv + at.of_qkv(1, k0),
           3 * at.dim, at.steps - k0);
  dot_rows(dp, at, a, b, in.dy + at.of_y(i0), at.dim, at.steps - i0, in.qkv + at.of_qkv(2, k0), 3 * at.dim,
           at.steps - k0);
  for (int k = 0; k < kEach; ++k) {
    const int c = at.c + k * kAcross;
    const bool there = row < at.steps && k0 + c <= row;
    const std::int64_t of_row = at.of_row(s, there ? row : 0);
    const float e = there ? expf(scale * scores[k] - in.log_sums[of_row]) : 0.0f,
                f = there ? at.factor(dropout, row, k0 + c) : 0.0f;
    p[at.r][c] = e * f;
    ds[at.r][c] = there ? e * (f * dp[k] - in.delta[of_row]) : 0.0f;
  }
}

__global__ void __launch_bounds__(kBlock)
    queries_backward_kernel(float* dqkv, BackwardInputs in, AttentionSizes s, AttentionDropout dropout) {
  __shared__ Tile a, b, p, ds;
  const Place at(s);
  const float scale = 1.0f / sqrtf(static_cast<float>(at.width));
  for (std::int64_t k0 = 0; k0 <= at.tile; k0 += kTile) {
    tile_backward(p, ds, a, b, in, s, dropout, at, at.tile, k0);
    add_product<false>(dqkv + at.of_qkv(0, at.tile), 3 * at.dim, at.steps - at.tile, k0 > 0 ? 1.0f : 0.0f, scale, at,
                       ds, b, in.qkv + at.of_qkv(1, k0), 3 * at.dim, at.steps - k0);
  }
}

__global__ void __launch_bounds__(kBlock)
    keys_backward_kernel(float* dqkv, BackwardInputs in, AttentionSizes s, AttentionDropout dropout) {
  __shared__ Tile a, b, p, ds;
  const Place at(s);
  const float scale = 1.0f / sqrtf(static_cast<float>(at.width));
  for (std::int64_t i0 = at.tile; i0 < at.steps; i0 += kTile) {
    tile_backward(p, ds, a, b, in, s, dropout, at, i0, at.tile);
    const float keep = i0 > at.tile ? 1.0f : 0.0f;
    add_product<true>(dqkv + at.of_qkv(2, at.tile), 3 * at.dim, at.steps - at.tile, keep, 1.0f, at, p, b,
                      in.dy + at.of_y(i0), at.dim, at.steps - i0);
    add_product<true>(dqkv + at.of_qkv(1, at.tile), 3 * at.dim, at.steps - at.tile, keep, scale, at, ds, b,
                      in.qkv + at.of_qkv(0, i0), 3 * at.dim, at.steps - i0);
  }
}

unsigned blocks_of(const AttentionSizes& s) {
  return static_cast<unsigned>(s.batch * s.heads * ((s.steps + kTile - 1) / kTile));
}

}  // namespace

void causal_attention(float* y, float* log_sums, const float* qkv, const AttentionSizes& sizes,
                      const AttentionDropout& dropout) {
  launch(attention_kernel, blocks_of(sizes), kBlock, y, log_sums, qkv, sizes, dropout);
}

void causal_attention_backward(float* dqkv, const float* dy, const float* y, const float* log_sums, const float* qkv,
                               const AttentionSizes& sizes, const AttentionDropout& dropout) {
  const AttentionSizes s = sizes;
  const std::int64_t rows = s.batch * s.heads * s.steps, dim = s.heads * s.width;
  const Temporary<float> sums(static_cast<std::size_t>(rows));
  float* const delta = sums.data();
  map(rows, [=] __device__(std::int64_t i) {
    const std::int64_t unit = i / s.steps;
    const std::int64_t from = (unit / s.heads * s.steps + i % s.steps) * dim + unit % s.heads * s.width;
    float sum = 0;
    for (std::int64_t d = 0; d < s.width; ++d) sum += dy[from + d] * y[from + d];
    delta[i] = sum;
  });
  const BackwardInputs in{dy, log_sums, delta, qkv};
  launch(queries_backward_kernel, blocks_of(s), kBlock, dqkv, in, s, dropout);
  launch(keys_backward_kernel, blocks_of(s), kBlock, dqkv, in, s, dropout);
}

}  // namespace laconic::cuda
