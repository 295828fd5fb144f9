#include "core/cuda/launch.cuh"
#include "core/kernels/images.h"

namespace laconic::cuda {
namespace {

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
