#pragma once
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "dist/method/strategy.h"
#include "layers/module.h"
#include "dist/world.h"

namespace laconic {

struct Setup;  // setup.h

/// Sums a few numbers over all workers. `what` is for errors.
void sum_over_workers(const dist::Worker& worker, const char* what, std::vector<double>& x);

/// The samples that one worker, and all of them, have trained on since their running statistics were the same: since
/// the training began, or went on with another number of workers. The statistics of a worker are a mean over its own
/// batches, so in the mean over workers they count by its samples; those of one without samples are still what all
/// began with. Steps that were passed over (`on-nan` skip) have left nothing in statistics, and count nothing.
struct SamplesSeen {
  std::int64_t own = 0, all = 0;
  double weight(int workers) const { return dist::weight_of(own, all, workers); }
};

/// Running statistics as they are now.
class KeptBuffers {
 public:
  explicit KeptBuffers(const Module& model);
  void put_back() const {
    for (const auto& [tensor, copy] : kept_) tensor.copy_from(copy);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;
};

/// While it lives, the model is what is evaluated and saved: where workers hold different parameters, the joint model;
/// with running statistics that are the mean over workers, weighed by samples. Where nothing is joined it is the
/// worker's own. All workers make one at once, after a flush.
class EvaluatedModel {
 public:
  explicit EvaluatedModel(const Setup& setup);
  /// throws where the model cannot be put back, unless an error is on its way already
  ~EvaluatedModel() noexcept(false);
  EvaluatedModel(const EvaluatedModel&) = delete;
  EvaluatedModel& operator=(const EvaluatedModel&) = delete;
  /// The model stays so.
  void keep() { kept_ = true; }

 private:
  dist::Strategy& strategy_;
  std::optional<KeptBuffers> own_;  // of this worker, where there are others
  bool kept_ = false;
  const int errors_ = std::uncaught_exceptions();
};

}  // namespace laconic
