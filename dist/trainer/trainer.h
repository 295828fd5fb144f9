#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/trace.h"
#include "dist/method/method.h"
#include "dist/predict/calibration_file.h"
#include "dist/predict/planner.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/gradient_counts.h"
#include "dist/trainer/gradient_dump.h"
#include "dist/trainer/gradient_watch.h"
#include "dist/trainer/plan_watch.h"
#include "dist/trainer/report.h"
#include "dist/trainer/step_figures.h"
#include "dist/trainer/step_losses.h"
#include "dist/trainer/step_memory.h"
#include "dist/trainer/workload.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace laconic {

/// A period in epochs, or in steps: "2", "200it".
struct Every {
  std::int64_t count = 0;  ///< at least 1
  bool in_steps = false;
};

/// The plan file that is none: ranks, network and layers are measured first, and the planner chooses.
inline constexpr const char* kAutomatic = "auto";

/// How to train: every rank is told the same.
struct TrainerOptions {
  std::string model_name = "model";  ///< for messages and checkpoints
  std::string own_settings{};        ///< what ranks and resumed runs must have alike besides, in a line
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps{};  ///< stop after so many updates since the start of training
  /// Ends an epoch after so many updates, at least 1, although there is more data: to time all phases of a long
  /// training.
  std::optional<std::int64_t> epoch_steps{};
  std::int64_t eval_every = 1;  ///< evaluate after every so many epochs, and at the end; 0: never
  double lr = 0.1;
  std::string lr_rule{};  ///< in words, where lr follows from other settings: checkpoints hold these instead of lr
  OptimizerOptions optimizer = OptimizerOptions();
  Schedule schedule{};
  Clip clip{};
  std::int64_t accumulate = 1;  ///< micro-batches per update, at least 1
  std::uint64_t seed = 0;       ///< of initial weights and dropout
  bool dropout = true;
  bool checkpoint_activations = false;  ///< Module::checkpoint_activations: less memory, more work, the same bits
  std::int64_t ledger_every = 0;        ///< measure where the bytes go every so many steps, if the method can; 0: never
  dist::PlanOptions plan{};
  std::string plan_file{};  ///< what travels how, instead of by `plan` (JSON, as plan().json()); kAutomatic
  dist::Allowed allowed{};  ///< what a plan of kAutomatic may do
  /// With kAutomatic: steps that take much longer or shorter than expected lead to another plan, by a fresh
  /// measurement, before the next checkpoint or at the end of the epoch, whichever comes first.
  bool replan = false;
  dist::CalibrationSource calibration{};  ///< of the figures of the network, where a plan goes by them
  bool codec_feedback = false;            ///< what a rank's encoding loses it adds when it encodes the element again
  std::optional<double> latency_seconds{}, seconds_per_byte{};  ///< of the network, where they are known
  dist::Overlap overlap = dist::Overlap::forward;               ///< changes no bit, so a resumed run may change it
  bool mean = true;                                             ///< gradients are divided by the number of workers
  int threads = 1;                                              ///< kernel threads of this worker
  Device device = kCpu;                                         ///< of the model, its state and what is computed
  std::uint64_t memory = 0;  ///< bytes that the workers of this process may take together; 0: as many as there are
  /// --on-nan skip: neither update nor new running statistics if a loss is not finite on any rank
  bool skip_nan = false;
  std::int64_t audit_every = 0;  ///< compare all ranks' bits every so many steps; 0: never
  std::string init{};            ///< weights to start from (safetensors); empty: random ones
  bool new_head = false;         ///< but for the output layer, which begins with random ones: other classes
  std::uint64_t memory_taken = 0;  ///< bytes that the process had taken before: code, libraries, data
  bool describes_only = false;   ///< description() and plan() will be asked for, and no step: weights get no values
  std::string save{};            ///< directory for weights and checkpoints; empty: none
  bool overwrite = false;        ///< what is saved there already
  std::optional<Every> save_every{};
  int keep = 2;  ///< checkpoints that stay in `save`: the newest ones
  /// A directory for rank 0's own gradients, and what has been gathered when elements are chosen, at steps 1, 10,
  /// 100, …
  std::string dump_gradients{};
  bool count_gradients = false;  ///< how large rank 0's own gradients are, at these steps: StepReport::gradients
  std::string resume{};        ///< checkpoint, or directory whose newest whole one is taken; empty: start anew
  bool resume_if_any = false;  ///< start anew, with a note, if there is none yet
  /// After run() the model of every worker is the one that was evaluated and saved: where workers hold different
  /// parameters the joint one. Else each keeps its own.
  bool joint_at_end = true;
  Trace* trace = nullptr;
  /// The first and the last step to trace, from 1. The one after is traced too: in its forward the last of their
  /// exchange ends. Nothing: all.
  std::optional<std::pair<std::int64_t, std::int64_t>> trace_steps{};
  /// More that all ranks must have been told alike, each line behind a "\n"; no part of checkpoints.
  std::string told_alike{};
  /// Asked after each step, and before each batch of an evaluation. All ranks then stop after the same step, and save;
  /// an evaluation that this puts off is made when the training is resumed.
  Stop stop_requested{};
};

/// Tells a method about a training with these options.
dist::TrainingFacts facts_of(const TrainerOptions& options, int workers, int servers, std::int64_t steps_per_epoch = 1);

class Checkpointing;  // checkpointing.h
class Servers;        // servers.h

/// The loop: load, forward, backward, finish, report. One per rank, on its compute thread. It holds what else a
/// training has: figures, evaluation, checkpoints, parameter servers. It knows no method by its name: what a method
/// does is in the object that it is given.
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
  EvalReport evaluate() { return *evaluate(false, false); }
  /// Evaluates on the test set, if the workload keeps one for the end.
  std::optional<EvalReport> evaluate_at_the_end() { return evaluate(true, false); }
  /// Writes weights and a checkpoint of the present state. All ranks call it.
  void save();
  StateDict weights() const;

  std::int64_t step() const { return step_; }  ///< updates made since the start of training
  const ParameterArena& arena() const { return *arena_; }
  const dist::Plan& plan() const { return plan_; }
  /// The one that was given, or what was chosen with the plan (TrainerOptions::allowed).
  const dist::Method& method() const { return *method_; }
  bool bytes_counted() const;  ///< see RunInfo
  RunInfo info() const;
  /// Describes what travels how, memory, and bytes per step, for --dry-run.
  std::string description() const;

 private:
  class Spans;
  void agree_on_plan();
  void take_plan(const std::string& text);
  std::string choose_plan(const dist::Allowed& allowed, const std::string& only, bool again = false);
  void measure_choosing(const dist::Allowed& allowed, dist::WorkCosts& work);
  void plan_anew_if_due();
  void measure_network();
  dist::LayerTimes measure_layers(double threads_per_core);
  void make_strategy();
  void make_equal();
  void restore();
  dist::RankState state() const;
  void begin_save(bool while_training);
  void finish_saving();
  void find_position();
  /// throws DataError where these weights name other tokens than the data have
  void require_same_vocabulary(const StateDict& weights) const;
  void tell_of_other_ranks() const;
  std::string fingerprint() const;
  std::int64_t steps_per_epoch() const;
  std::int64_t last_step() const;
  Schedule::Horizon horizon() const;
  /// Learning rate of an update, the first being 1.
  double rate_at(std::int64_t step) const {
    return o_.lr * o_.schedule.factor(step - 1 + facts_.steps_ahead, horizon());
  }
  void tell_of_a_long_warm_up() const;
  DataPosition position() const;
  std::int64_t batches_in(std::int64_t epoch) const {
    return epoch == rest_.position.epoch ? rest_.batches : workload_.batches_per_epoch();
  }
  /// Number in its epoch of the first update that these workers make there.
  std::int64_t first_update(std::int64_t epoch) const { return epoch == rest_.position.epoch ? rest_.first_update : 0; }
  std::int64_t epoch_of(std::int64_t step) const {
    return (step + facts_.steps_ahead) / std::max<std::int64_t>(1, steps_per_epoch());
  }
  /// Batch of that epoch with which the update after `step` begins.
  std::int64_t batch_at(std::int64_t step) const {
    const std::int64_t update = (step + facts_.steps_ahead) % std::max<std::int64_t>(1, steps_per_epoch());
    return (update - first_update(epoch_of(step))) * o_.accumulate;
  }
  std::string processor() const;
  /// Memory that one worker needs, in bytes, by what it is for, and what a dedicated server needs.
  struct MemoryNeed {
    std::vector<std::pair<std::string, double>> parts{};  ///< without those that have none
    double at_most = 0;  ///< of these: messages whose size the gradients decide
    double server = 0;
    double total() const;
    double least() const { return total() - at_most; }
  };
  MemoryNeed memory_need() const;
  void require_memory(double bytes_per_worker) const;
  ParameterListener* listener() const;
  /// Whether the length of the joined gradient is limited here, and not by the method.
  bool clips_norm() const { return o_.clip.kind == Clip::Kind::norm && !is_.limits_norm; }

  void train_step();
  void start_data(std::int64_t epoch, std::int64_t batch);
  Share load_data();
  /// Returns false if the loss was not finite and the step is to be passed over.
  bool train_micro_batch(const Share& share, double weight, bool last, StepFigures::Step& step);
  bool stopping() const;
  bool finite_everywhere(float loss);
  [[noreturn]] void report_non_finite(float loss);
  void require_finite_weights() const;
  std::string cause_of_non_finite(const Parameter& parameter) const;
  void apply(Parameter& parameter, Rows rows, const dist::StepContext& context);
  void apply_clipped();
  void flush();
  void audit();
  /// Returns nothing if there is no such set, or if a stop came where the evaluation `may_stop`.
  std::optional<EvalReport> evaluate(bool at_the_end, bool may_stop);
  void complete_and_tell(EvalReport& report, bool at_the_end);
  void evaluate_if_due();
  double seconds() const;  ///< since the start of training

  dist::Worker& worker_;
  Workload& workload_;
  std::shared_ptr<const dist::Method> method_;  // after agree_on_plan() it does not change
  dist::Method::Traits is_;
  TrainerOptions o_;
  dist::TrainingFacts facts_;  // after agree_on_plan() they do not change
  StepLosses losses_;          // empty on the CPU
  const std::unique_ptr<Observer> observer_;  // of rank 0, if there is one
  ForwardContext context_;
  std::shared_ptr<Module> in_context_;  // while it lives the model points to context_
  std::unique_ptr<ParameterArena> arena_;
  std::string fingerprint_;  // of the options, whatever is chosen by them
  std::unique_ptr<Optimizer> optimizer_;  // null: a parameter server has it
  dist::Plan plan_;
  std::optional<dist::Receipt> receipt_;  // rank 0's
  std::optional<PlanWatch> watch_;        // rank 0's, of an automatic plan
  std::unique_ptr<Checkpointing> checkpoints_;
  double kept_bytes_ = 0;             // by the strategy from its construction on
  std::unique_ptr<Servers> servers_;  // from construction on, whether or not the method has servers
  std::unique_ptr<dist::Strategy> strategy_;
  std::unique_ptr<Evaluation> evaluation_;
  // Between the arena and the strategy, where they are asked for.
  std::unique_ptr<GradientWatch> gradients_;
  std::unique_ptr<GradientDump> dump_;
  std::unique_ptr<GradientCounter> counter_;

  std::int64_t first_steps_per_epoch_ = 1;  // with as many workers as the training began with
  std::int64_t step_ = 0;
  std::int64_t passed_over_ = 0;  // of these: steps that made no update
  SamplesSeen samples_;
  /// An epoch that other numbers of workers have begun, and what of it these workers train. Epochs have as many updates
  /// as if these workers had made all: those that are missing in this one come before its first.
  struct Rest {
    DataPosition position{.epoch = -1};  // without what these workers have trained; -1: there is none
    std::int64_t batches = 0, first_update = 0;
  };
  Rest rest_;
  bool evaluation_due_ = false;  // this step ends an epoch that is to be evaluated, or the training
  std::vector<std::pair<Parameter*, Rows>> arrived_;  // with --clip norm: sums that wait for their common norm
  dist::StepContext arrived_context_;

  RunSummary summary_;
  StepFigures figures_;
  Clock::time_point run_start_ = Clock::now();
  double seconds_before_ = 0;   // of earlier runs of a resumed training
  StepMemory memory_;           // rank 0 looks
  std::uint64_t bytes_before_;  // the engine's, when this trainer was made
  Spans* spans_ = nullptr;      // while a trace is drawn
};

}  // namespace laconic
