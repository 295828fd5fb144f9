#pragma once
#include "core/autograd.h"

/// Element by element, any shape; the layout stays. Each saves its output.
namespace laconic::ops {

Tensor relu(const Tensor& x);     ///< y = max(x, 0), NaN stays NaN.   dx = dy where y > 0, else 0
Tensor tanh(const Tensor& x);     ///< y = tanh(x)                     dx = dy (1 - y^2)
Tensor sigmoid(const Tensor& x);  ///< y = 1 / (1 + exp(-x))           dx = dy y (1 - y)

}  // namespace laconic::ops
