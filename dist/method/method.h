#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/catalogue.h"
#include "core/base/settings.h"
#include "dist/method/strategy.h"
#include "dist/plan/plan.h"

namespace laconic::dist {

class Engine;
class JointNorm;
class ParameterServer;
class ServerControl;
class Shard;
struct WorkCosts;

/// When gradients travel and updates are made. It changes no bit: the messages are the plan's.
///   none      all after the whole backward
///   backward  each as soon as it is ready, all waited for at the end of the step (as PyTorch's DDP does)
///   forward   each as soon as it is ready, waited for before its parameters' next forward (HybridAR)
enum class Overlap : std::uint8_t { none, backward, forward };
const char* to_string(Overlap overlap);
/// throws UsageError (suggests the nearest)
Overlap overlap_named(const std::string& name);

/// How often a layer travels: in what share of the steps one worker sends it, and in what share it comes to the
/// workers.
struct LayerShare {
  double sent = 0, came = 0;
};

/// The training that a method is part of, as far as it is the method's business. Equal on all ranks.
struct TrainingFacts {
  int workers = 1;
  int servers = 0;  ///< dedicated ones; 0 for a method with servers: every worker serves a part
  std::string optimizer = "sgd";
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  double clip_norm = 0, clip_value = 0;  ///< limits of the joined gradient's length, of its elements; 0: none
  bool mean = true;                      ///< `reduce` mean: the workers' gradients are averaged, else summed
  /// How other workers go on with what each has put by of its gradients: what it will do to the weights stays.
  Join put_by() const { return mean ? Join::mean : Join::sum; }
  Overlap overlap = Overlap::forward;
  std::uint64_t seed = 0;
  PlanOptions plan{};
  std::string plan_file{};      ///< where what travels how comes from, instead of from `plan`
  bool codec_feedback = false;  ///< what a rank's encoding loses it adds when it encodes the element again
  std::int64_t steps_per_epoch = 1;
  /// Other numbers of workers made more or fewer updates in the epochs before: step + steps_ahead is the update that it
  /// would be if these workers had made all.
  std::int64_t steps_ahead = 0;
  std::int64_t ledger_every = 0;                            ///< steps; 0: no ledger
  std::optional<double> latency_seconds{}, seconds_per_byte{};  ///< of the network, where they are known
  std::map<std::string, LayerShare> layer_shares{};  ///< of a simulated one, by bucket, where they were measured
  /// For an element of a residual: gathering it and choosing from it exactly. Where it is known.
  std::optional<double> residual_seconds{};
};

/// The parts that a worker's half is made of. Those that are references outlive it.
struct WorkerSide {
  const TrainingFacts& facts;
  const ParameterArena& arena;
  Engine& engine;
  const Plan& plan;
  Update update{};    ///< the optimiser's, on this worker
  Tensor velocity{};  ///< its momentum, laid out like the arena; undefined: it has none
  MomentUpdate moments{};  ///< its update in two halves
  std::function<double(const ParameterInfo&)> weight_decay{};
  /// Told what has been gathered of a parameter when elements are about to be chosen from it. Null: nobody is.
  std::function<void(const Parameter&, Slice<const float>)> watch{};

  // With parameter servers.
  std::vector<int> server_rank{};  ///< by bucket: the rank that serves it
  ParameterServer* own = nullptr;  ///< of a worker that serves too
  ServerControl* control = nullptr;  ///< of dedicated servers; null: there are none
};

/// The parts that a server's half is made of.
struct ServerSide {
  const TrainingFacts& facts;
  const std::string& codec;  ///< the plan's
  Shard& shard;              ///< outlives the server
  Update update{};           ///< the optimiser's, on this server; null if the workers update
  std::shared_ptr<JointNorm> norm{};
};

/// A method is a way to join what workers learn: all that a paper proposes. It says what can be set, and it makes both
/// halves. Each folder beside this file is one. The catalogue makes an object, a program sets it, and then all ranks of
/// the process read it.
class Method {
 public:
  /// Tells the trainer where it has to act otherwise.
  struct Traits {
    bool joins = true;            ///< something travels; else each worker trains by itself
    bool servers = false;         ///< there are parameter servers
    bool workers_update = true;   ///< the optimiser is the workers'; else the servers'
    bool same_bits = true;        ///< after a flush all workers hold the same parameters
    bool codec = false;           ///< what travels passes through the plan's codec
    bool chooses = false;         ///< the plan may say that a choice of a parameter's elements travels
    bool limits_norm = false;     ///< it limits the gradient's length itself; else the trainer does
    bool plan_is_all = false;     ///< what travels is the plan's buckets, each by its collective, and nothing else
    bool asks_network = false;    ///< its plan goes by latency_seconds and its like: they are measured if nobody says
    bool alike = true;            ///< workers send as much in the same steps, so that one may stand for all
    bool on_ghosts = false;       ///< how much travels is known without values, or is taken to be: it can be simulated
    std::int64_t every = 1;       ///< steps from exchange to exchange
    std::int64_t period = 1;      ///< steps after which messages are the same again, a multiple of that
    const char* chooses_by = "";  ///< the selector that it chooses elements by, where the plan says of none
    const char* optimizer = "";   ///< the `optimizer` that it is a form of, where others are none
    const char* keeps = "";       ///< what its workers hold from step to step besides: "residual"
  };

  virtual ~Method() = default;
  /// As `sync` names it.
  virtual std::string name() const = 0;
  /// Says in one line what it does.
  virtual std::string summary() const = 0;
  virtual Traits traits() const { return {}; }
  /// Adds what can be set of it. What several methods have under one name means the same in all of them.
  virtual void settings(Settings&) {}
  /// throws UsageError for what makes no sense together
  virtual void check(const TrainingFacts&) const {}
  /// Says why a setting that belongs to no method ("codec", "fusion", "servers", ...) has no use here. Returns nothing
  /// if it has one.
  struct Refusal {
    std::string what, advice;
  };
  virtual std::optional<Refusal> refuses(const std::string& setting) const;
  /// Asks something of the plan: whole layers as one message, a choice of elements.
  virtual void shape(PlanOptions&, const TrainingFacts&) const {}
  /// Makes a worker's half. throws UsageError if the plan is not for this method
  virtual std::unique_ptr<Strategy> worker(WorkerSide side) const = 0;
  /// Makes a server's half, where traits().servers.
  virtual std::unique_ptr<ParameterServer> server(ServerSide side) const;
  /// Returns about how many bytes a worker sends in a step: the mean over workers, with the servers' shares. Returns
  /// nothing if the gradients decide, or if NCCL moves them.
  virtual std::optional<double> expected_bytes(const Plan&, const std::vector<std::shared_ptr<Parameter>>&,
                                               const TrainingFacts&) const {
    return std::nullopt;
  }
  /// Measures what its own work takes on this machine, for simulations: what is none of a plan's choices.
  virtual void measure(WorkCosts&, const TrainingFacts&) const {}
  /// Names the columns of its account of each parameter (Strategy::ledger).
  virtual LedgerForm ledger() const { return {}; }
  /// Describes itself with its settings in a few words: "redsync, 0.1 % by paper".
  virtual std::string describe(const TrainingFacts&) const { return name(); }

  /// Lists its settings that decide bits, on one line.
  std::string fingerprint() const;

 protected:
  /// Says that messages of this method are copies, so that `fusion` copy has no use. throws UsageError if it is given
  void refuse_copies(const TrainingFacts& facts) const;
  /// throws UsageError if a choice of the plan's does not fit this method
  void require_choices(const Plan& plan, const std::function<bool(const Choice&)>& fits) const;
};

/// All methods. Add your own before training begins.
Catalogue<Method>& methods();

/// A method with these settings: method("redsync", {{"density", "0.01"}}). throws UsageError
std::unique_ptr<Method> method(const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& settings = {});

}  // namespace laconic::dist
