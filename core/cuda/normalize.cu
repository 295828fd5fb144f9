#include "core/cuda/columns.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels/images.h"
#include "core/kernels/rows.h"

namespace laconic::cuda {
namespace {

/// A warp for each row.
__global__ void __launch_bounds__(kBlock)
    normalize_kernel(float* y, float* stats, const float* x, const float* gamma, const float* beta, std::int64_t rows,
                     std::int64_t dim, float epsilon) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;  // the whole warp
  const float *const from = x + row * dim, share = 1.0f / static_cast<float>(dim);
  const int lane = threadIdx.x % kWarp;
  float sum = 0, squares = 0;
  if (beta)
    for (std::int64_t c = lane; c < dim; c += kWarp) sum += from[c];
  const float mean = share * warp_sum(sum);
  for (std::int64_t c = lane; c < dim; c += kWarp) squares += (from[c] - mean) * (from[c] - mean);
  const float inverse = 1.0f / sqrtf(share * warp_sum(squares) + epsilon);
  for (std::int64_t c = lane; c < dim; c += kWarp)
    y[row * dim + c] = (from[c] - mean) * inverse * gamma[c] + (beta ? beta[c] : 0.0f);
  if (lane == 0) stats[row] = mean, stats[rows + row] = inverse;
}

__global__ void __launch_bounds__(kBlock)
    normalize_backward_kernel(float* dx, const float* dy, const float* x, const float* stats, const float* gamma,
                              std::int64_t rows, std::int64_t dim, bool centred) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const std::int64_t at = row * dim;
  const float mean = stats[row], inverse = stats[rows + row], share = 1.0f / static_cast<float>(dim);
  float products = 0, plain = 0;
  for (std::int64_t c = threadIdx.x % kWarp; c < dim; c += kWarp) {
    const float g = dy[at + c] * gamma[c];
    products += g * (x[at + c] - mean) * inverse;
    plain += g;
  }
  const float by_xhat = share * inverse * warp_sum(products), less = centred ? share * warp_sum(plain) : 0.0f;
  for (std::int64_t c = threadIdx.x % kWarp; c < dim; c += kWarp)
    dx[at + c] = inverse * (dy[at + c] * gamma[c] - less - (x[at + c] - mean) * by_xhat);
}

/// What the gradients of gamma and beta add: dy xhat, and dy.
struct AffineSums {
  static constexpr bool kStores = false;
  static constexpr int kSums = 2, kWide = 4;
  const float *dy, *x, *stats;
  std::int64_t rows, dim;
  template <int kWide>
  struct At {
    const float *dy, *x, *stats;
    std::int64_t rows, dim;
    __device__ void operator()(std::int64_t i, float (&sums)[2][kWide]) const {
      const float mean = stats[i / dim], inverse = stats[rows + i / dim];
      const Pack<float, kWide> g = load_pack<kWide>(dy + i), v = load_pack<kWide>(x + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        sums[0][k] += g.v[k] * (v.v[k] - mean) * inverse;
        sums[1][k] += g.v[k];
      }
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t) const {
    return {dy, x, stats, rows, dim};
  }
};

unsigned blocks_of(std::int64_t rows) { return static_cast<unsigned>((rows + kBlock / kWarp - 1) / (kBlock / kWarp)); }

/// d = k + alpha / size * the sum of squares around channel c of the pixel that x points to.
__device__ float denominator(const float* x, std::int64_t c, std::int64_t channels, const LrnShape& s) {
  const std::int64_t first = c - s.size / 2, last = c + (s.size - 1) / 2;
  float sum = 0;
  for (std::int64_t i = first < 0 ? 0 : first; i <= last && i < channels; ++i) sum += x[i] * x[i];
  return s.k + s.alpha / static_cast<float>(s.size) * sum;
}
__device__ float power(float d, float beta) {  // d^-beta
  return beta == 0.75f ? 1.0f / (sqrtf(d) * sqrtf(sqrtf(d))) : powf(d, -beta);
}

}  // namespace

void normalize_rows(float* y, float* stats, const float* x, const float* gamma, const float* beta, std::int64_t rows,
                    std::int64_t dim, float epsilon) {
  launch(normalize_kernel, blocks_of(rows), kBlock, y, stats, x, gamma, beta, rows, dim, epsilon);
}

void normalize_rows_backward(const NormalizeGradients& given, const float* dy, const float* x, const float* stats,
                             const float* gamma, std::int64_t rows, std::int64_t dim, bool centred) {
  const NormalizeGradients to = given;
  if (to.dgamma || to.dbeta)  // first: dx may be dy
    sum_columns(rows, dim, aligned_for<4>(dy, x), AffineSums{dy, x, stats, rows, dim},
                [=] __device__(std::int64_t c, const double* totals) {
                  if (to.dgamma) to.dgamma[c] = (to.add_to_gamma ? to.dgamma[c] : 0.0f) + static_cast<float>(totals[0]);
                  if (to.dbeta) to.dbeta[c] = (to.add_to_beta ? to.dbeta[c] : 0.0f) + static_cast<float>(totals[1]);
                });
  launch(normalize_backward_kernel, blocks_of(rows), kBlock, to.dx, dy, x, stats, gamma, rows, dim, centred);
}

void lrn_forward(float* y, const float* x, const ChannelView& v, const LrnShape& shape) {
  const std::int64_t channels = v.width;
  const LrnShape s = shape;
  map(v.outer * v.rows * channels, [=] __device__(std::int64_t at) {
    const std::int64_t c = at % channels;
    y[at] = x[at] * power(denominator(x + at - c, c, channels, s), s.beta);
  });
}

void lrn_backward(float* dx, const float* dy, const float* x, const ChannelView& v, const LrnShape& shape) {
  const std::int64_t channels = v.width, n = v.outer * v.rows * channels;
  const LrnShape s = shape;
  // What a channel's window hands to all that it holds, and then the sum of what those windows hand to a channel.
  const Temporary<float> handed(static_cast<std::size_t>(n));
  float* t = handed.data();
  map(n, [=] __device__(std::int64_t at) {
    const std::int64_t c = at % channels;
    const float d = denominator(x + at - c, c, channels, s), p = power(d, s.beta);
    t[at] = dy[at] * x[at] * p / d;
    dx[at] = dy[at] * p;
  });
  const float factor = 2.0f * s.alpha * s.beta / static_cast<float>(s.size);
  map(n, [=] __device__(std::int64_t at) {
    const std::int64_t c = at % channels, first = c - (s.size - 1) / 2, last = c + s.size / 2;
    const float* pixel = t + at - c;
    float sum = 0;
    for (std::int64_t i = first < 0 ? 0 : first; i <= last && i < channels; ++i) sum += pixel[i];
    dx[at] -= factor * x[at] * sum;
  });
}

}  // namespace laconic::cuda
