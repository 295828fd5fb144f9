#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

/// Mean over rows of the cross entropy between softmax(logits) and the labels.
///   loss = -1/N sum_n sum_k t[n, k] log p[n, k],  p = softmax(logits),  t = (1 - s) [k = label n] + s / K
///   logits : [N, K]   labels : int64 [N]   s : label smoothing in [0, 1]   ->   loss : [1]
///   dlogits = (p - t) / N.   Summed over rows in order, in double: the same for any number of threads.
///   memory   of logits that are handed over (nobody else holds them, as those of a model called in the argument)
///            becomes that of the exponentials, and in backward of dlogits: all three never exist side by side
///   source   Szegedy et al. 2016 (smoothing); PyTorch's semantics
/// Throws ShapeError if shapes do not fit, DataError if a label is not 0 … K - 1 (names the row; on a CUDA device the
/// next synchronize() throws it).
Tensor cross_entropy(Tensor logits, const Tensor& labels, float label_smoothing = 0);

/// Mean over rows of minus the logarithm that stands at the label: cross_entropy of log_softmax's result.
///   log_probabilities : [N, K]   labels : int64 [N]   ->   [1].   Errors as above.
Tensor nll(const Tensor& log_probabilities, const Tensor& labels);

/// Mean squared error: mean (a - b)^2 -> [1].   da = 2 (a - b) / n,  db = -da
/// Throws ShapeError if the shapes differ or there is nothing to average.
Tensor mse(const Tensor& a, const Tensor& b);

/// Mean binary cross entropy of sigmoid(logits) against targets in [0, 1] -> [1].
///   loss = mean (max(x, 0) - x t + log(1 + e^-|x|)),  which overflows nowhere.   dx = (sigmoid(x) - t) / n
/// Targets get no gradient. Throws ShapeError if the shapes differ or there is nothing to average.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets);

/// For evaluation, recorded nowhere. Errors as above.
/// Sum (not mean) over rows of the cross entropy, so that batches of any size add up.
double sum_of_cross_entropy(const Tensor& logits, const Tensor& labels);
/// Rows whose label is among the k largest logits: k = 1 for top-1, 5 for top-5.
std::int64_t count_correct(const Tensor& logits, const Tensor& labels, int k = 1);

}  // namespace laconic::inline ops
