#include "core/ops/relu_mask.h"

#include "core/cpu/elementwise.h"
#include "core/cuda/elementwise.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {

Tensor relu_mask(const Tensor& gradient, const Tensor& y) {
  const bool mine = gradient.sole_owner();
  const Tensor dy = raw::to_layout(gradient, y.layout());
  const Tensor masked =
      mine || !dy.same_memory(gradient) ? dy : Tensor::empty(y.shape(), DType::f32, y.device(), y.layout());
  LACONIC_KERNEL(y.device(), relu_backward(masked.data<float>(), dy.data<float>(), y.data<float>(), y.elements()));
  return masked;
}

}  // namespace laconic::ops
