#pragma once
#include "core/autograd.h"

namespace laconic::ops {

/// x's elements, in plain order, under another shape of as many elements. One copy if x is not in plain layout and
/// has more than one pixel, else free. dx is the same backwards. Throws ShapeError if the counts differ.
Tensor reshape(const Tensor& x, const Shape& shape);

/// [N, C, H, W] -> [N, C H W], the order of PyTorch's weights; any rank of 1 or more.
Tensor flatten(const Tensor& x);

}  // namespace laconic::ops
