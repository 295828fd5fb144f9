#pragma once
#include <optional>

#include "core/base/clock.h"
#include "dist/trainer/observers.h"
#include "dist/trainer/setup.h"
#include "dist/trainer/step_figures.h"
#include "dist/trainer/step_losses.h"
#include "dist/trainer/step_memory.h"
#include "dist/trainer/trace_spans.h"

namespace laconic {

/// The loop of a training that has been set up: load, forward, backward, finish, report; and between steps evaluation
/// and checkpoints.
class Training {
 public:
  /// Both outlive this. The observers of rank 0 alone are told; on other ranks there are none.
  Training(Setup& setup, Observers& observers);

  RunSummary run();
  /// Returns nothing if there is no such set, or if a stop came where the evaluation `may_stop`.
  std::optional<EvalReport> evaluate(bool at_the_end, bool may_stop);
  /// Writes weights and a checkpoint of the present state. All ranks call it.
  void save();

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

  void begin_steps();
  void end_epoch_or_period();
  void evaluate_if_due();
  void complete_and_tell(EvalReport& report, bool at_the_end);
  bool evaluate_what_is_left();
  void complete_summary();
  void begin_save(bool while_training);
  void finish_saving();
  void tell_of_a_long_warm_up() const;
  bool stopping() const { return stopped_ || figures_.stop_requested(); }
  double seconds() const { return seconds_before_ + seconds_since(run_start_); }  // since the start of training

  Setup& s_;
  Observers& observers_;
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
