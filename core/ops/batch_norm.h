#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

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

}  // namespace laconic::inline ops
