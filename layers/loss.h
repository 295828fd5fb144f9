#pragma once
#include <utility>

#include "core/ops/cross_entropy.h"
#include "core/ops/reduce.h"
#include "layers/module.h"

namespace laconic {

/// Mean cross entropy between softmax(logits) and class labels.   logits : [N, K]   labels : int64 [N]   ->   [1]
/// With label_smoothing s the target is (1 - s) at the label plus s / K everywhere.
/// Throws DataError if a label is not 0 … K - 1.
class CrossEntropy {
 public:
  struct Options {
    float label_smoothing = 0;
  };
  CrossEntropy() = default;
  explicit CrossEntropy(Options o) : o_(o) {}
  Tensor operator()(Tensor logits, const Tensor& labels) const {
    return ops::softmax_cross_entropy(std::move(logits), labels, o_.label_smoothing);
  }

 private:
  Options o_;
};

/// Mean of (prediction - target)^2 over all elements -> [1].   Throws ShapeError if the shapes differ.
class MSE {
 public:
  Tensor operator()(const Tensor& prediction, const Tensor& target) const { return ops::mse(prediction, target); }
};

}  // namespace laconic
