#pragma once
#include "layers/module.h"

namespace laconic {

/// Batch normalisation, over [N, C] (BatchNorm1d) or [N, C, H, W] (BatchNorm2d).
///   y = weight (x - mean) / sqrt(var + epsilon) + bias,   per channel
///   Training: mean and (biased) var of this batch, and running <- (1 - momentum) running + momentum batch (unbiased
///   var). Evaluation: the running statistics.
///   weight : [C] 1,  bias : [C] 0;  buffers running_mean [C] 0, running_var [C] 1, num_batches_tracked int64 [] 0
///   source   Ioffe & Szegedy 2015; PyTorch's semantics
/// Throws ShapeError if x has another rank or number of channels, or if training sees one value per channel.
class BatchNorm : public Module, public FusesRelu {
 public:
  struct Options {
    int channels = 0;
    float momentum = 0.1f, epsilon = 1e-5f;
  };
  /// max(y, 0) in the same pass over memory.
  Tensor forward_relu(const Tensor& x) override;
  /// max(y + residual, 0) in the same pass: the end of a residual block.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual);

 protected:
  BatchNorm(Options o, int rank);
  Tensor forward(const Tensor& x) override;

 private:
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual = {});

  Options o_;
  int rank_;
  std::shared_ptr<Parameter> gamma_, beta_;
  const Tensor &running_mean_, &running_var_, &batches_;
};

class BatchNorm1d final : public BatchNorm {
 public:
  explicit BatchNorm1d(Options o) : BatchNorm(o, 2) {}
};

class BatchNorm2d final : public BatchNorm {
 public:
  explicit BatchNorm2d(Options o) : BatchNorm(o, 4) {}
};

}  // namespace laconic
