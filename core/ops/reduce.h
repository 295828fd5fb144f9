#pragma once
#include <vector>

#include "core/autograd.h"

/// Reductions: over all elements, or over dimensions, which count from the back if they are negative and stay with
/// extent 1 if `keep`. Names and meanings are PyTorch's, but that what reduces everything gives [1]. Sums are added in
/// double, in an order that no number of threads changes.
/// All throw ShapeError: a dimension that x has not or that is named twice, a mean or an extreme of nothing.
namespace laconic::inline ops {

Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keep = false);
Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keep = false);
/// sum (x - mean)^2 / (n - 1), or / n if not unbiased
Tensor var(const Tensor& x, const std::vector<int>& dims, bool unbiased = true, bool keep = false);

/// The largest, or smallest, along one dimension: of equals the first, which gets the gradient; NaN wins.
Tensor max(const Tensor& x, int dim, bool keep = false);
Tensor min(const Tensor& x, int dim, bool keep = false);
Tensor max(const Tensor& x);  ///< the extreme of all elements, [1]
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, int dim, bool keep = false);  ///< i64, no gradient
Tensor argmin(const Tensor& x, int dim, bool keep = false);

/// e^x / sum e^x along one dimension, and its logarithm; the largest is taken out, so that nothing overflows.
Tensor softmax(const Tensor& x, int dim = -1);
Tensor log_softmax(const Tensor& x, int dim = -1);

}  // namespace laconic::inline ops
