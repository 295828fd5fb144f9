#pragma once
#include "core/ops/cross_entropy.h"

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
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    static const std::string kName = "loss";
    LayerScope scope(kName);
    return ops::softmax_cross_entropy(logits, labels, o_.label_smoothing);
  }

 private:
  Options o_;
};

}  // namespace laconic
