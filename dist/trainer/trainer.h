#pragma once
#include <memory>
#include <optional>
#include <string>

#include "core/parameter.h"
#include "dist/method/method.h"
#include "dist/trainer/options.h"
#include "dist/trainer/report.h"
#include "dist/trainer/workload.h"
#include "dist/world.h"

namespace laconic {

class Observers;  // observers.h
struct Setup;     // setup.h
class Training;   // training.h

/// Trains a workload: one per rank, on its compute thread. It knows no method by its name: what a method does is in the
/// object that it is given.
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
  Trainer(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method, TrainerOptions options,
          Observer* observer = nullptr);
  /// By an allreduce.
  Trainer(dist::Worker& worker, Workload& workload, TrainerOptions options, Observer* observer = nullptr)
      : Trainer(worker, workload, dist::method("allreduce"), std::move(options), observer) {}
  ~Trainer();

  /// Trains to the end, evaluates in between, and saves. May be called once.
  RunSummary run();
  /// Flushes and evaluates on all ranks; the figures are the same on every rank.
  EvalReport evaluate();
  /// Evaluates on the test set, if the workload keeps one for the end.
  std::optional<EvalReport> evaluate_at_the_end();
  /// Writes weights and a checkpoint of the present state. All ranks call it.
  void save();

  std::int64_t step() const;  ///< updates made since the start of training
  const ParameterArena& arena() const;
  const dist::Plan& plan() const;
  /// The one that was given, or what was chosen with the plan (TrainerOptions::allowed).
  const dist::Method& method() const;
  RunInfo info() const;
  /// Describes what travels how, memory, and bytes per step, for `dry-run`.
  std::string description() const;

 private:
  std::unique_ptr<Observers> observers_;
  std::unique_ptr<Setup> setup_;
  std::unique_ptr<Training> training_;
};

}  // namespace laconic
