#include "core/ops/activation.h"

#include "core/cpu/elementwise.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

using BackwardKernel = void (*)(float* dx, const float* dy, const float* y, std::int64_t n);

Tensor recorded(const char* what, const Tensor& x, const Tensor& y, BackwardKernel kernel) {
  return record(what, y, {x}, [y = y.value(), kernel](const Tensor& dy0, Grads& grads) {
    const Tensor dy = dy0.layout() == y.layout() ? Tensor() : raw::to_layout(dy0, y.layout());
    const Tensor& g = dy.defined() ? dy : dy0;  // no second handle: dy0 may be written into if nobody else holds it
    Tensor dx = g.sole_owner() ? g : Tensor::empty(y.shape(), DType::f32, y.device(), y.layout());
    on_device(y.device(), [&] { kernel(dx.data<float>(), g.data<float>(), y.data<float>(), y.elements()); });
    grads.put(0, std::move(dx));
  });
}

}  // namespace

Tensor relu(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  on_device(x.device(), [&] { cpu::relu(y.data<float>(), x.data<float>(), x.elements()); });
  return recorded("relu", x, y, cpu::relu_backward);
}

Tensor tanh(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  on_device(x.device(), [&] { cpu::tanh_forward(y.data<float>(), x.data<float>(), x.elements()); });
  return recorded("tanh", x, y, cpu::tanh_backward);
}

Tensor sigmoid(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  on_device(x.device(), [&] { cpu::sigmoid_forward(y.data<float>(), x.data<float>(), x.elements()); });
  return recorded("sigmoid", x, y, cpu::sigmoid_backward);
}

}  // namespace laconic::ops
