#include "core/ops/losses.h"

#include <vector>

#include "core/kernels/elementwise.h"
#include "core/kernels/rows.h"
#include "core/ops/common.h"
#include "core/ops/functions.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"

namespace laconic::inline ops {
namespace {

/// Where the loss lies.
Device check(const char* what, const Tensor& logits, const Tensor& labels) {
  require<ShapeError>(logits.rank() == 2 && logits.dim(1) >= 1 && labels.rank() == 1 && labels.dim(0) == logits.dim(0),
                      what, ": logits are ", logits.shape(), " and labels ", labels.shape(),
                      "; they must be [N, K] and [N].");
  require<ShapeError>(logits.dim(0) >= 1, what, ": no rows. A worker without samples must not compute a loss.");
  const Device device = require_one_device(what, {{"logits", logits}, {"labels", labels}});
  const std::int64_t row = first_wrong(labels, logits.dim(1));
  if (row < 0) return device;
  const std::int64_t label = on_device(labels.device(), [&] { return labels.data<std::int64_t>()[row]; });
  throw DataError(concat(what, ": label ", label, " in row ", row, " is not one of the ", logits.dim(1),
                         " classes 0 … ", logits.dim(1) - 1,
                         ". Check the data, or build the model with more classes."));
}

double total_of(const std::vector<double>& losses) {
  double total = 0;
  for (double l : losses) total += l;
  return total;
}

}  // namespace

Tensor cross_entropy(Tensor logits, const Tensor& labels, float s) {
  if (logits.dtype() == DType::bf16) return cross_entropy(to_float(logits), labels, s);
  const Device device = check("cross_entropy", logits, labels);
  require<ShapeError>(s >= 0 && s <= 1, "cross_entropy: label smoothing ", s, " is not in [0, 1].");
  const std::int64_t n = logits.dim(0), k = logits.dim(1);
  const bool cuda = device.kind == Device::Kind::cuda;
  // What backward reads: on the CPU exponentials and one number per row, on CUDA, where an exponential costs less than
  // memory, the logits and two. What it writes: the same place if nobody else has the logits.
  Tensor kept, rows, dx;
  if (wants_gradient({logits})) {
    dx = logits.sole_owner() && logits.device() == device ? logits.value()
                                                          : Tensor::empty(logits.shape(), DType::f32, device);
    kept = cuda ? logits.value() : dx;
    rows = Tensor::empty({n, cuda ? 2 : 1}, DType::f32, device);
  }
  const Tensor loss = Tensor::empty({1}, DType::f32, device);
  float* per_row = rows.defined() ? rows.data<float>() : nullptr;
  on_device(
      device,
      [&] {
        std::vector<double> losses(static_cast<std::size_t>(n));
        cpu::softmax_cross_entropy(losses.data(), kept.defined() ? kept.data<float>() : nullptr, per_row,
                                   logits.data<float>(), labels.data<std::int64_t>(), n, k, s);
        *loss.data<float>() = static_cast<float>(total_of(losses) / static_cast<double>(n));
      },
      [&] {
        cuda::softmax_cross_entropy(loss.data<float>(), per_row, logits.data<float>(), labels.data<std::int64_t>(), n,
                                    k, s);
      });
  return record("cross_entropy", loss, {logits},
                [kept, rows, dx, labels = labels.value(), n, k, s](const Tensor& dy, Grads& grads) {
                  on_device(
                      dx.device(),
                      [&] {
                        cpu::softmax_cross_entropy_backward(dx.data<float>(), kept.data<float>(), rows.data<float>(),
                                                            labels.data<std::int64_t>(), n, k, s,
                                                            *dy.data<float>() / static_cast<float>(n));
                      },
                      [&] {
                        cuda::softmax_cross_entropy_backward(dx.data<float>(), kept.data<float>(), rows.data<float>(),
                                                             labels.data<std::int64_t>(), n, k, s, dy.data<float>());
                      });
                  grads.put(0, dx);
                });
}

Tensor nll(const Tensor& log_probabilities, const Tensor& labels) {
  check("nll", log_probabilities, labels);
  return -mean(gather(log_probabilities, 1, labels.view({labels.dim(0), 1})));
}

Tensor mse(const Tensor& a, const Tensor& b) {
  require<ShapeError>(a.shape() == b.shape() && a.elements() >= 1, "mse: shapes ", a.shape(), " and ", b.shape(),
                      " must be the same, and not empty.");
  const Device device = require_one_device("mse", {{"a", a}, {"b", b}});
  const Tensor difference = Tensor::empty(a.shape(), DType::f32, device, a.layout());
  difference.copy_from(floats("mse", a));
  raw::axpy(difference, -1.0f, raw::to_layout(floats("mse", b), a.layout()));
  const auto n = static_cast<double>(a.elements());
  const Tensor y = Tensor::empty({1}, DType::f32, device);
  on_device(
      device,
      [&] { *y.data<float>() = static_cast<float>(cpu::sum_of_squares(difference.data<float>(), a.elements()) / n); },
      [&] {
        cuda::sum_of_squares(y.data<float>(), static_cast<float>(1 / n), difference.data<float>(), a.elements());
      });
  return record("mse", y, {a, b}, [=](const Tensor& dy, Grads& grads) {
    const float factor = 2.0f / static_cast<float>(n);
    for (int i : {0, 1}) {
      if (!grads.wants(i)) continue;
      Tensor d = Tensor::like(difference);
      LACONIC_KERNEL(d.device(), scale_times(d.data<float>(), difference.data<float>(), i == 0 ? factor : -factor,
                                             dy.data<float>(), d.elements()));
      grads.put(i, std::move(d));
    }
  });
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets) {
  require<ShapeError>(logits.shape() == targets.shape() && logits.elements() >= 1, "bce_with_logits: logits are ",
                      logits.shape(), " and targets ", targets.shape(), "; they must be the same, and not empty.");
  const Tensor x = floats("bce_with_logits", logits), t = floats("bce_with_logits", targets);
  const auto n = static_cast<float>(x.elements());
  const Tensor loss = mean(relu(x) - x * t + log(exp(-abs(x)) + 1.0f));
  return record("bce_with_logits", loss, {logits},
                [x, t, n](const Tensor& dy, Grads& grads) { grads.put(0, (sigmoid(x) - t) * (dy / n)); });
}

double sum_of_cross_entropy(const Tensor& logits0, const Tensor& labels) {
  check("cross_entropy", logits0, labels);
  const Tensor logits = floats("cross_entropy", logits0);
  const std::int64_t n = logits.dim(0), k = logits.dim(1);
  return on_device(
      logits.device(),
      [&] {
        std::vector<double> losses(static_cast<std::size_t>(n));
        cpu::softmax_cross_entropy(losses.data(), nullptr, nullptr, logits.data<float>(), labels.data<std::int64_t>(),
                                   n, k, 0);
        return total_of(losses);
      },
      [&] { return cuda::sum_of_cross_entropy(logits.data<float>(), labels.data<std::int64_t>(), n, k); });
}

std::int64_t count_correct(const Tensor& logits, const Tensor& labels, int k) {
  check("count_correct", logits, labels);
  return LACONIC_KERNEL(logits.device(), count_correct(floats("count_correct", logits).data<float>(),
                                                       labels.data<std::int64_t>(), logits.dim(0), logits.dim(1), k));
}

}  // namespace laconic::inline ops
