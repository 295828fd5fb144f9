#pragma once
#include <functional>

#include "layers/module.h"

/// Predictions of a model, and how good they are.
namespace laconic {

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
