#pragma once
#include "core/autograd.h"
#include "core/parameter.h"

namespace laconic::inline ops {

/// y = x w' + b, and max(·, 0) of it with relu = true.
///   x : [N, in]   w : [out, in]   b : [out] or undefined   ->   y : [N, out]
///   dx = dy w     dw = dy' x      db = sum_n dy[n]          (dy masked by y > 0 with relu)
/// The weights' gradient comes first, by Grads::chunk_rows: its rows travel while the rest is computed.
/// On a CUDA device in matmul_precision() (core/precision.h). Throws ShapeError if x has not the columns of w, or
/// operands are on different devices.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu = false);

/// linear() that awaits a parameter w: while recording in chunks of w.chunk_rows(), each multiplied before the next is
/// awaited (y[:, rows] = x w[rows]' + b[rows]), so that a step can begin before its last rows have arrived. Whether in
/// chunks depends on the plan alone and never on what has arrived: other products may have other last bits.
Tensor linear(const Tensor& x, Parameter& w, const Tensor& b, bool relu = false);

/// Products of matrices: a [..., m, k], b [..., k, n] -> [..., m, n]. What stands in front broadcasts. A vector in
/// place of a is one row, in place of b one column, and the result has no such dimension.
///   da = dy b',  db = a' dy
/// Throws ShapeError if the shapes do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace laconic::inline ops
