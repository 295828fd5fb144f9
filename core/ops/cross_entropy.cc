#include "core/ops/cross_entropy.h"

#include <vector>

#include "core/cpu/softmax.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

void check(const char* what, const Tensor& logits, const Tensor& labels) {
  require<ShapeError>(logits.rank() == 2 && logits.dim(1) >= 1 && labels.rank() == 1 && labels.dim(0) == logits.dim(0),
                      what, ": logits are ", logits.shape(), " and labels ", labels.shape(),
                      "; they must be [N, K] and [N].");
  require<ShapeError>(logits.dim(0) >= 1, what, ": no rows. A worker without samples must not compute a loss.");
  const std::int64_t row = on_device(labels.device(), [&] {
    return cpu::first_bad_label(labels.data<std::int64_t>(), labels.elements(), logits.dim(1));
  });
  if (row < 0) return;
  const std::int64_t label = on_device(labels.device(), [&] { return labels.data<std::int64_t>()[row]; });
  throw DataError(concat(what, ": label ", label, " in row ", row, " is not one of the ", logits.dim(1),
                         " classes 0 … ", logits.dim(1) - 1,
                         ". Check the data, or build the model with more classes."));
}

double sum(const std::vector<double>& losses) {
  double total = 0;
  for (double l : losses) total += l;
  return total;
}

}  // namespace

Tensor softmax_cross_entropy(Tensor logits, const Tensor& labels, float s) {
  check("cross_entropy", logits, labels);
  require<ShapeError>(s >= 0 && s < 1, "cross_entropy: label smoothing ", s, " is not in [0, 1).");
  const std::int64_t n = logits.dim(0), k = logits.dim(1);
  const Device device = logits.device();
  Tensor e, inverse;
  if (wants_gradient({logits})) {
    e = logits.sole_owner() ? logits.value() : Tensor::empty(logits.shape(), DType::f32, device);
    inverse = Tensor::empty({n}, DType::f32, device);
  }
  std::vector<double> losses(static_cast<std::size_t>(n));
  on_device(device, [&] {
    cpu::softmax_cross_entropy(losses.data(), e.defined() ? e.data<float>() : nullptr,
                               e.defined() ? inverse.data<float>() : nullptr, logits.data<float>(),
                               labels.data<std::int64_t>(), n, k, s);
  });
  const Tensor loss = Tensor::full({1}, static_cast<float>(sum(losses) / static_cast<double>(n)), device);
  return record("cross_entropy", loss, {logits},
                [e, inverse, labels = labels.value(), n, k, s](const Tensor& dy, Grads& grads) {
                  const float scale = dy.item() / static_cast<float>(n);
                  on_device(e.device(), [&] {
                    cpu::softmax_cross_entropy_backward(e.data<float>(), e.data<float>(), inverse.data<float>(),
                                                        labels.data<std::int64_t>(), n, k, s, scale);
                  });
                  grads.put(0, e);
                });
}

double sum_of_cross_entropy(const Tensor& logits, const Tensor& labels) {
  check("cross_entropy", logits, labels);
  std::vector<double> losses(static_cast<std::size_t>(logits.dim(0)));
  on_device(logits.device(), [&] {
    cpu::softmax_cross_entropy(losses.data(), nullptr, nullptr, logits.data<float>(), labels.data<std::int64_t>(),
                               logits.dim(0), logits.dim(1), 0);
  });
  return sum(losses);
}

std::int64_t count_correct(const Tensor& logits, const Tensor& labels, int k) {
  check("count_correct", logits, labels);
  return on_device(logits.device(), [&] {
    return cpu::count_correct(logits.data<float>(), labels.data<std::int64_t>(), logits.dim(0), logits.dim(1), k);
  });
}

}  // namespace laconic::ops
