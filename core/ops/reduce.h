#pragma once
#include "core/autograd.h"

namespace laconic::ops {

Tensor sum(const Tensor& x);   ///< [1]; added in double, in an order that no number of threads changes.   dx = dy
Tensor mean(const Tensor& x);  ///< [1]; sum / number of elements.   dx = dy / elements

/// Mean squared error: mean (a - b)^2 -> [1].   da = 2 (a - b) / n,  db = -da
/// Throws ShapeError if the shapes differ or there is nothing to average.
Tensor mse(const Tensor& a, const Tensor& b);

}  // namespace laconic::ops
