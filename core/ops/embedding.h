#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

/// y[..., :] = w[index[...], :]: one row of w per index.
///   index : i64, [T, B] or [n]   w : [vocabulary, dim]   ->   y : [T, B, dim] or [n, dim]
///   dw[r] = sum of dy[i] over index[i] = r, zero elsewhere: dense, added in the order of i for any number of threads;
///   handed over by Grads::chunk_rows. Where another use has written it before (a tied weight), only rows that occur in
///   index are visited
/// Throws ShapeError if the shapes or types do not fit, DataError naming the first index outside of the vocabulary (on a
/// CUDA device any of them, by the next synchronize()).
Tensor embedding(const Tensor& index, const Tensor& w);

}  // namespace laconic::inline ops
