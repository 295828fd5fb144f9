#pragma once
#include <algorithm>
#include <cstdint>

#include "dist/trainer/checkpoint.h"
#include "dist/trainer/options.h"
#include "dist/trainer/workload.h"

namespace laconic {

/// Which update belongs to which epoch and batch. Updates are counted since the start of training. The number of
/// workers may have changed since then; epochs have as many updates as if these workers had made all of them.
class Timetable {
 public:
  /// All three outlive this.
  Timetable(const TrainerOptions& options, Workload& workload, int workers)
      : o_(options), workload_(workload), workers_(workers), first_steps_per_epoch_(steps_per_epoch()) {}

  /// Goes on from there: deals out what is left of the epoch, if other numbers of workers have begun it.
  void go_on_from(const Manifest& manifest);

  std::int64_t steps_per_epoch() const;
  /// The last step of this training.
  std::int64_t last_step() const { return o_.steps ? *o_.steps : o_.epochs * steps_per_epoch() - ahead_; }
  std::int64_t steps_ahead() const { return ahead_; }  ///< dist::TrainingFacts
  /// With as many workers as the training began with; at least 1.
  std::int64_t first_steps_per_epoch() const { return std::max<std::int64_t>(1, first_steps_per_epoch_); }
  Schedule::Horizon horizon() const;
  /// Learning rate of an update, the first being 1.
  double rate_at(std::int64_t step) const { return o_.lr * o_.schedule.factor(step - 1 + ahead_, horizon()); }

  std::int64_t epochs_done(std::int64_t step) const { return (step + ahead_) / nonzero_steps(); }
  bool ends_epoch(std::int64_t step) const { return (step + ahead_) % nonzero_steps() == 0; }
  /// The epochs after `step` updates, one that has begun included.
  std::int64_t epochs_begun(std::int64_t step) const {
    return (step + ahead_ + steps_per_epoch() - 1) / nonzero_steps();
  }
  std::int64_t batches_in(std::int64_t epoch) const {
    return epoch == rest_.position.epoch ? rest_.batches : workload_.batches_per_epoch();
  }
  /// Batch of its epoch with which the update after `step` begins.
  std::int64_t batch_at(std::int64_t step) const {
    return ((step + ahead_) % nonzero_steps() - first_update(epochs_done(step))) * o_.accumulate;
  }
  DataPosition position(std::int64_t step) const;
  /// The epoch that other numbers of workers have begun; -1: there is none.
  std::int64_t shared_epoch() const { return rest_.position.epoch; }
  /// In that epoch too little was left for an update.
  bool nothing_left() const { return shared_epoch() >= 0 && rest_.first_update == steps_per_epoch(); }

 private:
  std::int64_t nonzero_steps() const { return std::max<std::int64_t>(1, steps_per_epoch()); }
  std::int64_t updates(std::int64_t batches) const { return (batches + o_.accumulate - 1) / o_.accumulate; }
  /// Number in its epoch of the first update that these workers make there.
  std::int64_t first_update(std::int64_t epoch) const { return epoch == rest_.position.epoch ? rest_.first_update : 0; }

  /// An epoch that other numbers of workers have begun, and what of it these workers train. The updates that are
  /// missing in this epoch come before its first.
  struct Rest {
    DataPosition position{.epoch = -1};  // without what these workers have trained
    std::int64_t batches = 0, first_update = 0;
  };
  const TrainerOptions& o_;
  Workload& workload_;
  const int workers_;
  std::int64_t first_steps_per_epoch_, ahead_ = 0;
  Rest rest_;
};

}  // namespace laconic
