#pragma once
#include "core/autograd.h"

namespace laconic::ops {

/// y = x w' + b, and max(·, 0) of it with relu = true.
///   x : [N, in]   w : [out, in]   b : [out] or undefined   ->   y : [N, out]
///   dx = dy w     dw = dy' x      db = sum_n dy[n]          (dy masked by y > 0 with relu)
/// Throws ShapeError if x has not the columns of w.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu = false);

}  // namespace laconic::ops
