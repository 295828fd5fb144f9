#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/trace.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/gradient_probes.h"
#include "dist/trainer/options.h"
#include "dist/trainer/report.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/timetable.h"
#include "dist/update.h"
#include "optim/optimizer.h"

namespace laconic {

/// Where a training is: a part of its checkpoints.
struct TrainingState {
  std::int64_t step = 0;         ///< updates made since the start of training
  std::int64_t passed_over = 0;  ///< steps among them that made no update
  SamplesSeen samples{};
  std::int64_t bytes_sent = 0, bytes_dense = 0;  ///< StepReport::bytes_sent_sum and its like, added up
  double seconds = 0;
  bool evaluation_due = false;  ///< this step ends an epoch that is to be evaluated, or the training
};

/// A worker's updates by its optimiser, from gradients that it limits before.
class Updates {
 public:
  /// optimizer : null where the servers update.   clip : of the joined gradient, unless the method limits it
  /// Both references outlive this.
  Updates(const ParameterArena& arena, Optimizer* optimizer, const Clip& clip)
      : arena_(arena), optimizer_(optimizer), clip_(clip) {}

  /// All gradients of a step must have arrived before its first update, which ends the overlap with the next forward.
  bool waits_for_all() const { return clip_.kind == Clip::Kind::norm; }

  /// The gradient has arrived: updates the parameter now, or in apply_all().
  void apply(Parameter& p, Rows rows, const dist::StepContext& context) {
    if (waits_for_all()) {
      arrived_.emplace_back(&p, rows);
      context_ = context;
      return;
    }
    const Trace::Span span(p.info.name, "update");
    if (clip_.kind == Clip::Kind::value) {
      const bool all = rows.count == p.all_rows().count;
      clip_value(all ? p.grad() : p.grad().rows(rows.first, rows.count), clip_.limit / context.gradient_scale);
    }
    optimizer_->update(p, rows, context.lr, context.gradient_scale);
  }

  /// All gradients have arrived.
  void apply_all() {
    const double mean = context_.gradient_scale;  // the arena holds sums
    const double scale = mean * clip_scale(mean * mean * gradient_sum_of_squares(arena_), clip_.limit);
    optimizer_->update(std::exchange(arrived_, {}), context_.lr, scale);
  }

 private:
  const ParameterArena& arena_;
  Optimizer* const optimizer_;
  const Clip clip_;
  std::vector<std::pair<Parameter*, Rows>> arrived_;  // sums that wait for their common norm
  dist::StepContext context_;
};

/// All that a worker trains with, made once and before its first step. The constructor goes through it from top to
/// bottom: options, model, agreement of ranks, plan, strategy, values.
///
/// throws as Trainer does
struct Setup {
  Setup(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method,
        const TrainerOptions& options);
  ~Setup();  ///< dismisses dedicated servers, unless an error passes
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  dist::Worker& worker;
  Workload& workload;
  std::shared_ptr<const dist::Method> method;  ///< the one that was given, or what was chosen with the plan
  dist::Method::Traits is;  ///< traits of the method
  TrainerOptions o;         ///< options
  const std::uint64_t bytes_before;  ///< sent by this rank when the set-up began
  Timetable timetable;
  dist::TrainingFacts facts;
  ForwardContext context;
  std::shared_ptr<Module> in_context;  ///< while it lives the model points to `context`
  std::unique_ptr<ParameterArena> arena;
  std::string fingerprint;               ///< of the options, whatever is chosen by them
  std::unique_ptr<Optimizer> optimizer;  ///< null: a parameter server has it
  std::unique_ptr<Updates> updates;
  std::unique_ptr<Checkpointing> checkpoints;
  dist::Plan plan;
  std::optional<dist::Receipt> receipt;  ///< rank 0's, of an automatic plan
  std::unique_ptr<Servers> servers;      ///< whether or not the method has servers
  std::unique_ptr<dist::Strategy> strategy;
  double kept_bytes = 0;                   ///< by the strategy from its construction on
  std::unique_ptr<GradientProbes> probes;  ///< between arena and strategy; null: none is asked for
  TrainingState now;

  /// This worker's gradients go there.
  ParameterListener* listener() const {
    return probes ? static_cast<ParameterListener*>(probes.get()) : strategy.get();
  }
  bool bytes_counted() const;  ///< see RunInfo
  RunInfo info() const;
  /// Describes what travels how, memory, and bytes per step, for `dry-run`.
  std::string description() const;
  StateDict weights() const;
  /// What this worker goes on with, its servers apart.
  dist::RankState state() const;
  /// "AVX-512", or a GPU's name
  std::string processor() const;
  /// Positions the data: the next batch is that of the update after now.step.
  void start_data() { start_data(timetable.epochs_done(now.step), timetable.batch_at(now.step)); }
  void start_data(std::int64_t epoch, std::int64_t batch);
  /// Compares all ranks' bits. throws CommError, Error
  void audit();
  /// The loss of the update after now.step is not finite. throws Error: names the step, and the first parameter or
  /// layer where it shows
  [[noreturn]] void report_non_finite(float loss);
  /// The last update may have broken the model: then there is nothing worth evaluating or saving. throws Error: names
  /// the first parameter or buffer that is not finite
  void require_finite_weights() const;

 private:
  void make_model();
  void agree_on_options();
  void agree_on_plan();  // planning.cc, as are the next ones
  std::string plan_by(const dist::PlanOptions& options) const;
  std::string chosen_plan();
  void take_plan(const std::string& text);
  std::string choose_plan(const dist::Allowed& allowed, const std::string& only);
  void measure_choosing(const dist::Allowed& allowed, dist::WorkCosts& work);
  void measure_network();
  dist::LayerTimes measure_layers(double threads_per_core);
  void make_strategy();
  void make_equal();
  void restore();  // resume.cc, as are the next ones
  void tell_of_other_ranks() const;
  /// throws DataError where these weights name other tokens than the data have
  void require_same_vocabulary(const StateDict& weights) const;

  /// Memory that one worker needs, in bytes, by what it is for, and what a dedicated server needs.
  struct MemoryNeed {
    std::vector<std::pair<std::string, double>> parts{};  ///< without those that have none
    double at_most = 0;                                   ///< of these: messages whose size the gradients decide
    double server = 0;
    double total() const;
    double least() const { return total() - at_most; }
  };
  MemoryNeed memory_need() const;  // description.cc
  void require_memory(double bytes_per_worker) const;
};

}  // namespace laconic
