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

/// Batch normalisation over N (and H, W), with an optional addition and ReLU in the same pass over memory:
///   xhat = (x - mean) / sqrt(var + epsilon)      y = gamma * xhat + beta (+ residual), then max(·, 0) with relu
///   x : [N, C] or [N, C, H, W]   gamma, beta, running_mean, running_var : [C]   residual : as x, or undefined
/// Training: mean and (biased) var of this batch; running <- (1 - momentum) running + momentum batch, with the unbiased
/// variance. Otherwise the running statistics, which are constants for backward. A second run of a checkpointed segment
/// takes the statistics of the first and changes nothing.
///   source   Ioffe & Szegedy 2015; PyTorch's semantics
/// Throws ShapeError if C does not fit, or if training sees one value per channel.
struct BatchNormOptions {
  bool training = true;
  float momentum = 0.1f, epsilon = 1e-5f;
  bool relu = false;
};
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options, const Tensor& residual = {});

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
