// The updates of optimisers, written once: core/cpu/update.cc and core/cuda/update.cu include this.

namespace laconic::LACONIC_DEVICE {

void sgd(float* w, const float* g, float* buffer, std::int64_t n, const SgdStep& step) {
  const SgdStep s = step;
  if (!buffer)
    return each<2>(
        n, [=] __device__(float& wi, float gi) { wi -= s.lr * (s.gradient_scale * gi + s.weight_decay * wi); }, w, g);
  // PyTorch's first buffer is the gradient itself, without dampening.
  const float take = s.first ? 1.0f : 1.0f - s.dampening;
  each<2>(
      n,
      [=] __device__(float& wi, float gi, float& b) {
        const float d = s.gradient_scale * gi + s.weight_decay * wi;
        b = (s.first ? 0.0f : s.momentum * b) + take * d;
        wi -= s.lr * (s.nesterov ? d + s.momentum * b : b);
      },
      w, g, buffer);
}

void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamStep& step) {
  const AdamStep s = step;
  each<2>(
      n,
      [=] __device__(float& wi, float gi, float& mi, float& vi) {
        const float d = s.gradient_scale * gi + s.weight_decay * wi;
        mi = s.beta1 * mi + s.rest1 * d;
        vi = s.beta2 * vi + s.rest2 * d * d;
        wi = s.keep * wi - s.step_size * (mi / (sqrtf(vi) / s.root_correction + s.eps));
      },
      w, g, m, v);
}

void clamp(float* x, float limit, std::int64_t n) {
  each<2>(
      n,
      [=] __device__(float& xi) {
        const float below = xi > limit ? limit : xi;
        xi = below < -limit ? -limit : below;
      },
      x);
}

}  // namespace laconic::LACONIC_DEVICE
