#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

struct LocalResponseNormOptions {
  int size = 5;
  float alpha = 1e-4f, beta = 0.75f, k = 1.0f;
};

/// y[n, c] = x[n, c] / (k + alpha / size * sum_c' x[n, c']^2)^beta,
///   c' = c - size / 2 … c + (size - 1) / 2, inside 0 … C - 1
///   x : [N, C] or [N, C, H, W]   ->   y the same, in the same layout.   Saves x.
///   source   Krizhevsky et al. 2012, section 3.3. settled: the paper's alpha is not divided by size; PyTorch's is, and
///            ours
/// Throws ShapeError if size < 1.
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options);

}  // namespace laconic::inline ops
