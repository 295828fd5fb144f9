#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

/// Products of matrices: a [..., m, k], b [..., k, n] -> [..., m, n]. What stands in front broadcasts. A vector in
/// place of a is one row, in place of b one column, and the result has no such dimension.
///   da = dy b',  db = a' dy
/// Throws ShapeError if the shapes do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace laconic::inline ops
