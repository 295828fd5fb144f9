#pragma once
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "dist/trainer/setup.h"
#include "dist/trainer/step_figures.h"
#include "dist/trainer/step_watch.h"

namespace laconic {

/// Trains a workload: one per rank, on its compute thread. It is set up when it is made; then it loops over load,
/// forward, backward, finish, report, and between steps over evaluation and checkpoints. It knows no method by its
/// name: what a method does is in the object that it is given.
///
/// Workers make one. Dedicated servers call serve() instead (servers.h).
///
///   run_workers({.workers = 4}, [&](dist::Worker& worker) {
///     ImageClassification task(make_model("lenet"), data, worker.rank, worker.size, {.batch = 16});
///     Trainer(worker, task, dist::method("redsync", {{"density", "0.01"}}), {.epochs = 2, .lr = 0.05}).run();
///   });
///
/// Every batch weighs by its samples: worker k's mean gradient counts n_k N / n in a global batch of n (settled for
/// short last batches), so that the update is the gradient of the mean over the global batch whatever the number of
/// workers.
///
/// throws UsageError, DataError   options, weights or checkpoints that do not fit
///        CommError               a rank was lost, or ranks were started with different options
///        Error                   the loss is not finite (names the step and the first layer where it shows)
class Trainer {
 public:
  /// Initialises or loads the model and makes all ranks equal. `observer` (may be null) is told by rank 0 only.
  Trainer(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method,
          const TrainerOptions& options, Observer* observer = nullptr);
  /// By an allreduce.
  Trainer(dist::Worker& worker, Workload& workload, const TrainerOptions& options, Observer* observer = nullptr)
      : Trainer(worker, workload, dist::method("allreduce"), options, observer) {}

  /// Trains to the end, evaluates in between, and saves. May be called once.
  RunSummary run();
  /// Flushes and evaluates on all ranks; the figures are the same on every rank.
  EvalReport evaluate() { return *evaluate(false, false); }
  /// Evaluates on the test set, if the workload keeps one for the end.
  std::optional<EvalReport> evaluate_at_the_end() { return evaluate(true, false); }
  /// Writes weights and a checkpoint of the present state. All ranks call it.
  void save();

  std::int64_t step() const { return now_.step; }  ///< updates made since the start of training
  const ParameterArena& arena() const { return *s_.arena; }
  const dist::Plan& plan() const { return s_.plan; }
  /// The one that was given, or what was chosen with the plan (TrainerOptions::allowed).
  const dist::Method& method() const { return *s_.method; }
  RunInfo info() const { return s_.info(); }
  /// Describes what travels how, memory, and bytes per step, for `dry-run`.
  std::string description() const { return s_.description(); }

 private:
  struct Batches;
  Batches batches_of_step() const;
  void train_step();
  bool train_micro_batch(const Share& share, double weight, bool last, StepFigures::Step& step);
  void begin_step(const Batches& batches, double weight, StepFigures::Step& step);
  void end_step(StepFigures::Step& step);
  Share load_data(StepFigures::Step& step);
  bool finite_everywhere(float loss);
  void flush();

  void begin_steps();  // between_steps.cc, as are the next ones
  void end_epoch_or_period();
  /// Returns nothing if there is no such set, or if a stop came where the evaluation `may_stop`.
  std::optional<EvalReport> evaluate(bool at_the_end, bool may_stop);
  void evaluate_if_due();
  std::optional<EvalReport> measured(bool at_the_end, bool may_stop) const;
  void complete_and_tell(EvalReport& report, bool at_the_end);
  bool evaluate_what_is_left();
  void complete_summary();
  void begin_save(bool while_training);
  void finish_saving();
  void tell_of_a_long_warm_up() const;
  bool stopping() const { return stopped_ || figures_.stop_requested(); }
  double seconds() const { return seconds_before_ + seconds_since(run_start_); }  // since the start of training

  Setup s_;
  Observers observers_;  // rank 0's; on other ranks there are none
  TrainingState& now_;
  RunSummary summary_;
  StepFigures figures_;
  StepLosses losses_;                // empty on the CPU
  StepMemory memory_;                // rank 0 looks
  std::optional<TraceSpans> spans_;  // while a trace is drawn
  bool stopped_ = false;             // an evaluation
  const double seconds_before_;      // of earlier runs of a resumed training
  Clock::time_point run_start_ = Clock::now();
};

}  // namespace laconic
