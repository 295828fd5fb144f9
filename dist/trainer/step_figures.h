#pragma once
#include <cstdint>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "dist/engine/engine.h"
#include "dist/method/method.h"
#include "dist/trainer/report.h"
#include "dist/world.h"

namespace laconic {

/// Numbers in each step's message of figures, summed over ranks, servers included. Those of a file are of the rank's
/// part of a checkpoint, once that has been written and until it counts (Checkpointing); else 0.
enum Figure {
  kLoss,
  kSamples,
  kBytes,
  kUp,
  kDown,
  kCpuSeconds,
  kServerCpuSeconds,
  kStop,
  kSkipped,
  kComputeMs,
  kDataMs,
  kExposedMs,
  kSendingMs,
  kFileBytes,
  kFileCrc,
  kFigures
};
/// What ranks tell each other of a step.
struct SharedFigures {
  std::vector<double> sums{};              ///< at first this rank's
  std::vector<std::vector<double>> all{};  ///< by rank

  void set_file(const FileSum& file) {
    sums[kFileBytes] = static_cast<double>(file.bytes), sums[kFileCrc] = file.crc32;
  }
  /// All ranks' files; nothing while one is missing.
  std::vector<FileSum> files() const;
};
/// Begins to share them; they are left alone until the ticket was waited for.
dist::Ticket submit_figures(dist::Engine& engine, int slot, SharedFigures& figures);

/// What steps took and sent. The figures of a step are summed over ranks while the next one runs, and then told to the
/// observer; totals of all steps go to the run's summary. Where nothing is joined each worker reports of itself.
class StepFigures {
 public:
  /// One step, as this worker saw it.
  struct Step {
    StepReport report{};                        ///< what is known of it when it ends
    std::int64_t samples = 0, own_samples = 0;  ///< of all workers, and of this one
    double loss_sum = 0;                        ///< over its own samples
    bool skipped = false;                       ///< `on-nan` skip: no update was made
    bool stop_requested = false;                ///< of this worker
    FileSum file{};                             ///< of this worker's part of a checkpoint, where it has been written
    dist::Costs costs{};                        ///< of the strategy, up to the step's end
  };

  /// All of them must outlive the object. There are observers on rank 0 alone.
  StepFigures(dist::Worker& worker, const dist::Method::Traits& method, RunSummary& summary, Observers& observers)
      : worker_(worker),
        is_(method),
        summary_(summary),
        observers_(observers),
        slot_(worker.engine.reserve_slots(1)) {}
  ~StepFigures() { abandon(); }
  StepFigures(const StepFigures&) = delete;
  StepFigures& operator=(const StepFigures&) = delete;

  /// Counts from now on: what was sent so far belongs to no step, and neither do these costs of the strategy.
  void count_from_now(const dist::Costs& costs);
  /// Times the next step from now on. Called after evaluation, a checkpoint and the like.
  void restart_clock() { step_start_ = Clock::now(); }
  void begin_step() { exposed_before_ = worker_.engine.counters().exposed_seconds; }
  /// The step has ended: finishes the one before.
  void close(const Step& step);
  /// Sends the figures of the step that was closed last; workers that join nothing meet if it is time.
  void send();
  /// Awaits the figures that are under way, if any, and tells the observer.
  void finish();
  /// Adds the time since `since` to the step that was closed last: a flush waits and updates for that step.
  void extend(Clock::time_point since, double exposed_before);
  /// All ranks' parts of a checkpoint, if all had been written by the end of the step `files_at()`; else nothing.
  const std::vector<FileSum>& files() const { return files_; }
  std::int64_t files_at() const { return files_at_; }
  /// Says whether some worker was asked to stop.
  bool stop_requested() const { return stop_; }
  /// Halts the engine if figures are under way (an exception passes): it must not write into them any more.
  void abandon();
  /// Tells the observer of the ranks' last steps, and writes the totals of all steps to the summary.
  void summarise();

  /// While it lives, bytes and time belong to no step: weights at the start, evaluation, checkpoints. Nothing else may
  /// be under way when it begins.
  class Outside {
   public:
    explicit Outside(StepFigures& figures);
    ~Outside();
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    StepFigures& figures_;
    const dist::EngineCounters begin_;
    const double cpu_;
  };

 private:
  void meet();
  void count_ranks();
  void tell_of_ranks();
  dist::Worker& worker_;
  const dist::Method::Traits& is_;
  RunSummary& summary_;
  Observers& observers_;
  const int slot_;
  Clock::time_point step_start_ = Clock::now();
  double exposed_before_ = 0;
  double counted_cpu_ = 0;        // seconds of this process that are in the log up to here
  dist::EngineCounters counted_;  // likewise of the engine
  dist::Costs costs_;             // likewise of the strategy
  double seconds_ = 0, exposed_seconds_ = 0, data_seconds_ = 0, samples_ = 0;  // of all steps
  static constexpr std::int64_t kStepsOfRanks = 100;
  RanksReport ranks_, all_ranks_;  // of the steps since they were told last; of all steps
  bool any_ranks_ = false;         // the first step has been
  bool stop_ = false;
  std::vector<FileSum> files_;
  std::int64_t files_at_ = 0;
  double since_meeting_ = 0;  // seconds of the steps since then, where nothing is joined
  std::int64_t steps_to_meeting_ = 1, steps_between_ = 1;
  // About the step whose figures travel.
  bool any_ = false;
  StepReport report_;
  double report_seconds_ = 0;
  SharedFigures shared_;
  dist::Ticket ticket_;
};

}  // namespace laconic
