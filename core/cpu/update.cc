#include "core/cpu/update.h"

#include <cmath>

#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;

// One function per loop so that each is compiled for every instruction set; flags are decided outside.
LACONIC_MULTIVERSION void plain_part(float* LACONIC_RESTRICT w, const float* LACONIC_RESTRICT g, std::int64_t n,
                                     float lr, float scale, float decay) {
  for (std::int64_t i = 0; i < n; ++i) w[i] -= lr * (scale * g[i] + decay * w[i]);
}
// d = scale g + decay w;   buffer = keep buffer + take d;   w -= lr buffer, or lr (d + momentum buffer) for Nesterov.
LACONIC_MULTIVERSION void momentum_part(float* LACONIC_RESTRICT w, const float* LACONIC_RESTRICT g,
                                        float* LACONIC_RESTRICT buffer, std::int64_t n, float lr, float scale,
                                        float decay, float keep, float take) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = scale * g[i] + decay * w[i];
    buffer[i] = keep * buffer[i] + take * d;
    w[i] -= lr * buffer[i];
  }
}
LACONIC_MULTIVERSION void nesterov_part(float* LACONIC_RESTRICT w, const float* LACONIC_RESTRICT g,
                                        float* LACONIC_RESTRICT buffer, std::int64_t n, float lr, float scale,
                                        float decay, float keep, float take, float momentum) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = scale * g[i] + decay * w[i];
    buffer[i] = keep * buffer[i] + take * d;
    w[i] -= lr * (d + momentum * buffer[i]);
  }
}
LACONIC_MULTIVERSION void adam_part(float* LACONIC_RESTRICT w, const float* LACONIC_RESTRICT g,
                                    float* LACONIC_RESTRICT m, float* LACONIC_RESTRICT v, std::int64_t n, float scale,
                                    float decay, float beta1, float beta2, float eps, float step_size,
                                    float root_correction, float keep) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = scale * g[i] + decay * w[i];
    m[i] = beta1 * m[i] + (1.0f - beta1) * d;
    v[i] = beta2 * v[i] + (1.0f - beta2) * d * d;
    w[i] = keep * w[i] - step_size * (m[i] / (std::sqrt(v[i]) / root_correction + eps));
  }
}
LACONIC_MULTIVERSION void clamp_part(float* x, float limit, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float below = x[i] > limit ? limit : x[i];
    x[i] = below < -limit ? -limit : below;
  }
}

}  // namespace

void sgd(float* w, const float* g, float* buffer, std::int64_t n, const SgdStep& s) {
  // PyTorch's first buffer is the gradient itself, without dampening. The buffer may hold anything but NaN then: 0 x
  // it.
  const float keep = s.first ? 0.0f : s.momentum, take = s.first ? 1.0f : 1.0f - s.dampening;
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) {
    if (!buffer) return plain_part(w + b, g + b, e - b, s.lr, s.gradient_scale, s.weight_decay);
    if (!s.nesterov)
      return momentum_part(w + b, g + b, buffer + b, e - b, s.lr, s.gradient_scale, s.weight_decay, keep, take);
    nesterov_part(w + b, g + b, buffer + b, e - b, s.lr, s.gradient_scale, s.weight_decay, keep, take, s.momentum);
  });
}

void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamStep& s) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) {
    adam_part(w + b, g + b, m + b, v + b, e - b, s.gradient_scale, s.weight_decay, s.beta1, s.beta2, s.eps, s.step_size,
              s.root_correction, s.keep);
  });
}

void clamp(float* x, float limit, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { clamp_part(x + b, limit, e - b); });
}

}  // namespace laconic::cpu
