#pragma once
#include "core/tensor.h"

namespace laconic::ops {

/// gradient where y > 0, else 0, in y's layout: the backward of a ReLU that some other operation applied to y.
/// Written over `gradient` if nobody else holds it.
Tensor relu_mask(const Tensor& gradient, const Tensor& y);

}  // namespace laconic::ops
