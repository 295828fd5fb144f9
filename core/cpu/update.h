#pragma once
#include <cstdint>

/// The loops of core/update.h on host memory: one pass each, every array read and written once, over kernel_threads()
/// threads. Element-wise, so the bits depend on no thread.
namespace laconic::cpu {

struct SgdStep {
  float lr, gradient_scale, weight_decay, momentum, dampening;
  bool nesterov;
  bool first;  ///< the buffer holds nothing yet
};
void sgd(float* w, const float* g, float* buffer, std::int64_t n, const SgdStep& s);  ///< buffer may be null

struct AdamStep {
  float gradient_scale, weight_decay, beta1, beta2, eps;
  float step_size;        ///< lr / (1 - beta1^t)
  float root_correction;  ///< sqrt(1 - beta2^t)
  float keep;             ///< 1 - lr * weight_decay where the decay is decoupled (then weight_decay is 0), else 1
};
void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamStep& s);

void clamp(float* x, float limit, std::int64_t n);  ///< to [-limit, limit]; NaN stays

}  // namespace laconic::cpu
