#include "core/cuda/each.cuh"
#include "core/cuda/update.h"

namespace laconic::cuda {

void sgd(float* w, const float* g, float* buffer, std::int64_t n, const cpu::SgdStep& s) {
  const float lr = s.lr, scale = s.gradient_scale, decay = s.weight_decay, momentum = s.momentum;
  if (!buffer)
    return each(
        n, [=] __device__(float& wi, float gi) { wi -= lr * (scale * gi + decay * wi); }, w, g);
  const float take = s.first ? 1.0f : 1.0f - s.dampening;
  const bool first = s.first, nesterov = s.nesterov;
  each(
      n,
      [=] __device__(float& wi, float gi, float& b) {
        const float d = scale * gi + decay * wi;
        b = (first ? 0.0f : momentum * b) + take * d;
        wi -= lr * (nesterov ? d + momentum * b : b);
      },
      w, g, buffer);
}

void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const cpu::AdamStep& step) {
  const cpu::AdamStep s = step;
  each(
      n,
      [=] __device__(float& wi, float gi, float& mi, float& vi) {
        const float d = s.gradient_scale * gi + s.weight_decay * wi;
        mi = s.beta1 * mi + (1.0f - s.beta1) * d;
        vi = s.beta2 * vi + (1.0f - s.beta2) * d * d;
        wi = s.keep * wi - s.step_size * (mi / (sqrtf(vi) / s.root_correction + s.eps));
      },
      w, g, m, v);
}

void clamp(float* x, float limit, std::int64_t n) {
  each(
      n,
      [=] __device__(float& xi) {
        const float below = xi > limit ? limit : xi;
        xi = below < -limit ? -limit : below;
      },
      x);
}

}  // namespace laconic::cuda
