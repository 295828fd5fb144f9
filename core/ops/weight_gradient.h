#pragma once
#include "core/autograd.h"

namespace laconic::ops {

/// The gradient dy' x of a weight [width, in] that is input i of an operation y = x w', if it is wanted: as a whole, or
/// in the chunks of rows in which it travels, each handed over when it is done (Grads::chunk_rows).
///   x : [rows, in]   dy : [rows, width]   both float32, or on a CUDA device both bfloat16
void weight_gradient(Grads& grads, int i, const Tensor& x, const Tensor& dy, std::int64_t rows, std::int64_t in,
                     std::int64_t width);

}  // namespace laconic::ops
