#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/parameter.h"

namespace laconic::dist {

/// How the samples of a step are spread: every worker has `each`, and of `rest` more worker k has the k-th `batch`,
/// which may be short, or empty.
struct StepSamples {
  std::int64_t each = 1, rest = 0, batch = 0;
  std::int64_t of(int worker) const { return each + std::clamp<std::int64_t>(rest - worker * batch, 0, batch); }
};

/// Returns what worker's share counts in a mean over `workers` of them, who have `own` of `all` samples: n_k N / n. It
/// is 1 exactly where all have as many, and where nobody has any.
inline double weight_of(std::int64_t own, std::int64_t all, int workers) {
  return all > 0 ? static_cast<double>(own) * workers / static_cast<double>(all) : 1;
}

/// Facts that a step's updates need, captured when its gradients are handed over: with overlap the update happens
/// when the next step has already begun.
struct StepContext {
  std::int64_t step = 1;         ///< first 1
  std::int64_t passed_over = 0;  ///< steps before it that made no update (`on-nan` skip)
  double lr = 0;
  double gradient_scale = 1;  ///< set by the strategy: 1/N where parameter.grad() holds a sum over ranks to be averaged
  /// A rank with n_k of all n samples holds n_k N / n times its own mean gradient. So the mean over N ranks is the mean
  /// over all samples. 1 but in a short batch; 0 without samples.
  double own_weight = 1;
  StepSamples samples{};

  /// Returns the gradient_scale of a step that a rank makes by its own mean.
  double scale_to_own_mean() const { return own_weight > 0 ? 1 / own_weight : 1; }

  /// The number of its update, first 1.
  std::int64_t update() const { return step - passed_over; }
};

/// Applies the gradient that stands in parameter.grad(), times context.gradient_scale, for these rows: of each update
/// every row once. Runs on the compute thread. Made by the trainer from an optimiser.
using Update = std::function<void(Parameter&, Rows, const StepContext&)>;

/// An update in two halves, between which Adam's first moment m travels instead of the gradient; the second one, v, is
/// frozen. Made by the trainer from an optimiser that has moments; else all are null. Compute thread.
struct MomentUpdate {
  /// parameter.grad() becomes what m would become by it; of each update every row once.
  std::function<void(Parameter&, Rows)> form;
  /// m becomes what stands in parameter.grad(), and the value follows. v has seen `updates_of_v` gradients.
  std::function<void(Parameter&, Rows, const StepContext&, std::int64_t updates_of_v)> take;
  /// Before the first of these: v is not to change any more. To say it again changes nothing.
  std::function<void()> freeze;
  /// Ordinary updates are to change v again, which has missed so many until now.
  std::function<void(std::int64_t missed)> thaw;
};

}  // namespace laconic::dist
