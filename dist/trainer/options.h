#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/trace.h"
#include "core/device.h"
#include "dist/method/method.h"
#include "dist/predict/calibration_file.h"
#include "dist/predict/planner.h"
#include "dist/trainer/workload.h"
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
  std::optional<std::int64_t> steps{};  ///< the updates since the start of training after which it stops
  /// The updates, at least 1, after which an epoch ends although there is more data: to time all phases of a long
  /// training.
  std::optional<std::int64_t> epoch_steps{};
  std::int64_t eval_every = 1;  ///< epochs from evaluation to evaluation; there is one at the end, too. 0: none
  double lr = 0.1;
  std::string lr_rule{};  ///< in words, where lr follows from other settings: checkpoints hold these instead of lr
  OptimizerOptions optimizer = OptimizerOptions();
  Schedule schedule{};
  Clip clip{};
  std::int64_t accumulate = 1;  ///< micro-batches per update, at least 1
  std::uint64_t seed = 0;       ///< of initial weights and dropout
  bool dropout = true;
  bool checkpoint_activations = false;  ///< Module::checkpoint_activations: less memory, more work, the same bits
  std::int64_t ledger_every = 0;        ///< steps from one ledger of bytes to the next, if the method can; 0: none
  dist::PlanOptions plan{};
  std::string plan_file{};  ///< what travels how, instead of by `plan` (JSON, as plan().json()); kAutomatic
  dist::Allowed allowed{};  ///< what a plan of kAutomatic may do
  dist::CalibrationSource calibration{};  ///< of the figures of the network, where a plan goes by them
  bool codec_feedback = false;            ///< what a rank's encoding loses it adds when it encodes the element again
  std::optional<double> latency_seconds{}, seconds_per_byte{};  ///< of the network, where they are known
  dist::Overlap overlap = dist::Overlap::forward;               ///< changes no bit, so a resumed run may change it
  bool mean = true;                                             ///< gradients are divided by the number of workers
  int threads = 1;                                              ///< kernel threads of this worker
  Device device = kCpu;                                         ///< of the model, its state and what is computed
  std::uint64_t memory = 0;  ///< bytes that the workers of this process may take together; 0: as many as there are
  /// `on-nan` skip: neither update nor new running statistics if a loss is not finite on any rank
  bool skip_nan = false;
  std::int64_t audit_every = 0;    ///< steps from one comparison of all ranks' bits to the next; 0: none
  std::string init{};              ///< weights to start from (safetensors); empty: random ones
  bool new_head = false;           ///< the output layer begins with random weights all the same: other classes
  std::uint64_t memory_taken = 0;  ///< bytes that the process had taken before: code, libraries, data
  bool describes_only = false;     ///< description() and plan() will be asked for, and no step: weights get no values
  std::string save{};              ///< directory for weights and checkpoints; empty: none
  bool overwrite = false;          ///< what is saved there already
  std::optional<Every> save_every{};
  int keep = 2;  ///< checkpoints that stay in `save`: the newest ones
  /// A directory for rank 0's own gradients, and what has been gathered when elements are chosen, at steps 1, 10,
  /// 100, …
  std::string dump_gradients{};
  bool count_gradients = false;  ///< how large rank 0's own gradients are, at these steps: StepReport::gradients
  std::string resume{};          ///< checkpoint, or directory whose newest whole one is taken; empty: start anew
  bool resume_if_any = false;    ///< start anew, with a note, if there is none yet
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

/// Lists what all ranks must have been told alike, one a line. `servers` are the dedicated ones. Checkpoints hold it.
std::string fingerprint(const dist::Method& method, const TrainerOptions& options, int servers);
/// Lists what else they must have been told alike, each line behind a "\n". A resumed run may change it.
std::string run_fingerprint(const TrainerOptions& options);

/// Returns the options.
/// throws UsageError if they make no sense together, or with this method and this number of dedicated servers
const TrainerOptions& require_sense(const TrainerOptions& options, const dist::Method& method, int servers);

}  // namespace laconic
