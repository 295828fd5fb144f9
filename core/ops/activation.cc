#include "core/ops/activation.h"

#include "core/cpu/elementwise.h"
#include "core/cuda/elementwise.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// backward(dx, dy, y) gives dx, which may be dy.
template <class F>
Tensor recorded(const char* what, const Tensor& x, const Tensor& y, F backward) {
  return record(what, y, {x}, [y = y.value(), backward](const Tensor& dy0, Grads& grads) {
    const Tensor dy = dy0.layout() == y.layout() ? Tensor() : raw::to_layout(dy0, y.layout());
    const Tensor& g = dy.defined() ? dy : dy0;  // no second handle: dy0 may be written into if nobody else holds it
    Tensor dx = g.sole_owner() ? g : Tensor::empty(y.shape(), DType::f32, y.device(), y.layout());
    backward(dx, g, y);
    grads.put(0, std::move(dx));
  });
}

}  // namespace

Tensor relu(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  LACONIC_KERNEL(x.device(), relu(y.data<float>(), x.data<float>(), x.elements()));
  return recorded("relu", x, y, [](const Tensor& dx, const Tensor& dy, const Tensor& out) {
    LACONIC_KERNEL(out.device(), relu_backward(dx.data<float>(), dy.data<float>(), out.data<float>(), out.elements()));
  });
}

Tensor tanh(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  LACONIC_KERNEL(x.device(), tanh_forward(y.data<float>(), x.data<float>(), x.elements()));
  return recorded("tanh", x, y, [](const Tensor& dx, const Tensor& dy, const Tensor& out) {
    LACONIC_KERNEL(out.device(), tanh_backward(dx.data<float>(), dy.data<float>(), out.data<float>(), out.elements()));
  });
}

Tensor sigmoid(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  LACONIC_KERNEL(x.device(), sigmoid_forward(y.data<float>(), x.data<float>(), x.elements()));
  return recorded("sigmoid", x, y, [](const Tensor& dx, const Tensor& dy, const Tensor& out) {
    LACONIC_KERNEL(out.device(),
                   sigmoid_backward(dx.data<float>(), dy.data<float>(), out.data<float>(), out.elements()));
  });
}

}  // namespace laconic::ops
