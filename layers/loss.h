#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/losses.h"
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
    return ops::cross_entropy(std::move(logits), labels, o_.label_smoothing);
  }

 private:
  Options o_;
};

/// Mean of (prediction - target)^2 over all elements -> [1].   Throws ShapeError if the shapes differ.
class MSE {
 public:
  Tensor operator()(const Tensor& prediction, const Tensor& target) const { return ops::mse(prediction, target); }
};

/// A classifier that predicts from inner layers too while it learns, so that those get gradients over a shorter way.
/// Called as a module it gives its own logits alone: the heads have no part in evaluation.
class HasAuxiliaryHeads {
 public:
  struct Outputs {
    Tensor logits;
    std::vector<Tensor> auxiliary;  ///< logits of the heads, in the order of forward; none where there are no heads
  };
  virtual ~HasAuxiliaryHeads() = default;
  virtual Outputs outputs(const Tensor& x) = 0;
  virtual float auxiliary_weight() const = 0;  ///< the weight of each head's loss, beside the model's own
};

/// Mean cross entropy of a classifier on a batch [1], recorded; while a model with auxiliary heads is in training mode,
/// plus theirs times their weight. Throws as CrossEntropy.
inline Tensor classification_loss(Module& model, const Tensor& x, const Tensor& labels, float label_smoothing = 0) {
  const CrossEntropy cross_entropy({.label_smoothing = label_smoothing});
  auto* heads = dynamic_cast<HasAuxiliaryHeads*>(&model);
  if (!heads || !model.training()) return cross_entropy(model(x), labels);
  HasAuxiliaryHeads::Outputs outputs = heads->outputs(x);
  Tensor loss = cross_entropy(std::move(outputs.logits), labels);
  const Tensor weight = Tensor::full({1}, heads->auxiliary_weight(), loss.device());
  for (Tensor& logits : outputs.auxiliary)
    loss = ops::add(loss, ops::multiply(cross_entropy(std::move(logits), labels), weight));
  return loss;
}

/// Runs the model on one sample, in evaluation mode and unrecorded.   sample : as a data set gives it, without
/// the batch in front   ->   the prediction without the batch in front, where the model put one
Tensor predict(Module& model, const Tensor& sample);

/// How well predictions meet targets: a mean over the samples of a batch.
using Metric = std::function<double(const Tensor& prediction, const Tensor& target)>;

/// Share of rows whose largest logit is at the label.   logits : [N, K]   labels : int64 [N]
double accuracy(const Tensor& logits, const Tensor& labels);
/// Share of rows whose label is among the k largest logits.
Metric top_k(int k);
/// Mean |prediction - target|, over all elements of both, which have one shape.
double mean_absolute_error(const Tensor& prediction, const Tensor& target);

}  // namespace laconic
