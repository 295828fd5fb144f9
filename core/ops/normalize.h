#pragma once
#include "core/autograd.h"

/// Normalisation of each vector of the last dimension, one pass over memory each way.
namespace laconic::inline ops {

/// y = gamma (x - mean) / sqrt(var + epsilon) + beta,   mean and (biased) var over the last dimension
///   x : [..., dim]   gamma : [dim]   beta : [dim] or undefined, which is 0
/// Saves x and two numbers a vector.   source: Ba et al. 2016
/// Throws ShapeError if extents do not fit.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon = 1e-5f);

/// y = gamma x / sqrt(mean(x^2) + epsilon), the mean over the last dimension; otherwise as layer_norm.
///   source   Zhang & Sennrich 2019
Tensor rms_norm(const Tensor& x, const Tensor& gamma, float epsilon = 1e-5f);

}  // namespace laconic::inline ops
