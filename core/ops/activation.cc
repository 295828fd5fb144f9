#include "core/ops/activation.h"

#include "core/kernels/elementwise.h"
#include "core/ops/common.h"

namespace laconic::ops {
namespace {

/// forward(y, x, n) and backward(dx, dy, y, n) where the memory lies.
template <class Forward, class Backward>
Tensor activated(const char* what, const Tensor& x, Forward forward, Backward backward) {
  const Tensor y = Tensor::like(x);
  forward(y.data<float>(), x.data<float>(), x.elements());
  return record(what, y, {x}, [y = y.value(), backward](const Tensor& gradient, Grads& grads) {
    grads.put(0, elementwise_gradient(gradient, y, [&](const Tensor& dx, const Tensor& dy) {
                backward(dx.data<float>(), dy.data<float>(), y.data<float>(), y.elements());
              }));
  });
}

}  // namespace

/// `kernel` and `kernel_backward` as an operation.
#define LACONIC_ACTIVATION(operation, kernel, kernel_backward)                                              \
  Tensor operation(const Tensor& x) {                                                                       \
    return activated(                                                                                       \
        #operation, x,                                                                                      \
        [d = x.device()](float* y, const float* a, std::int64_t n) { LACONIC_KERNEL(d, kernel(y, a, n)); }, \
        [d = x.device()](float* dx, const float* dy, const float* y, std::int64_t n) {                      \
          LACONIC_KERNEL(d, kernel_backward(dx, dy, y, n));                                                 \
        });                                                                                                 \
  }
LACONIC_ACTIVATION(relu, relu, relu_backward)
LACONIC_ACTIVATION(tanh, tanh_forward, tanh_backward)
LACONIC_ACTIVATION(sigmoid, sigmoid_forward, sigmoid_backward)

}  // namespace laconic::ops
