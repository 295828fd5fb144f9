#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dist/method/allreduce/allreduce_sync.h"
#include "dist/method/ledger_account.h"
#include "dist/method/redsync/residual_tensor.h"
#include "dist/method/redsync/split_exchange.h"

namespace laconic::dist {

/// Residual gradient compression. A rank adds the gradients of a parameter up in a residual. It sends the elements of
/// the residual that have grown large, and keeps the rest. The plan says for which parameters; all others travel
/// densely, as AllreduceSync sends them, with ordinary momentum.
///
///     when the gradient of some rows is ready     U = m U + G, V += U              one pass
///     when those of a parameter all are           S = select(V, k), packed and handed over; V[S] = 0, U[S] = 0
///     before its next forward                     w -= lr mean over ranks of what they sent, in rank order
///
/// With Overlap::forward a parameter whose exchange nobody has had to wait for, as of layers that come late in forward,
/// does the first two when backward has ended: then the messages that the next forward needs first are on their way,
/// and what else there is to do fills the time until they have come. That changes no bit.
///
/// Per element, what was sent and the residual add up to what was put into the residual, over all ranks: nothing is
/// lost (with `quantised` and without `feedback` the error of the one value is, as in the paper).
/// After a flush all ranks hold the same bits, if they began with the same, whatever the overlap.
///
/// Momentum correction means that U is each worker's own and w takes what was sent as it is; weight decay goes into V.
/// Without it (`corrects` is false) V += G, and the sum of what was sent is the gradient of the ordinary update, with
/// the optimiser's momentum.
///
/// --clip norm limits the 2-norm of each rank's own gradient before it is gathered; all selection then waits for the
/// end of backward. DGC's local clipping; of a mean over N ranks, X sqrt(N) stands for X (settled).
///
/// A phase may be dense: all of every gradient travels, with common momentum. When it ends, U is the common velocity
/// and V is 0; when another one begins, V is sent once and U becomes its mean. Nothing is lost either way.
///
/// Where the plan names NCCL, messages are made on the device and stay there (nccl_allgather). NCCL sums the values of
/// elements that all ranks choose alike. As the order of messages is then one for
/// all ranks, nothing waits there for the end of backward. At the border of a phase all travels by a ring.
///
/// source  RedSync Algorithm 4 (settled: its Allreduce is a sparse allgather); DGC (momentum correction, masking);
///         gradient dropping (Aji & Heafield 2017), AdaComp (Chen et al. 2018), Strom 2015 by other choices
/// throws  UsageError, CommError as AllreduceSync, UsageError for `split` and NCCL; CommError naming the rank whose
/// message is none
class RedSync final : public Strategy {
 public:
  /// Parameters that send a choice keep their U in side.velocity. side.update is called for those that travel densely,
  /// and for all if momentum is not corrected.
  RedSync(WorkerSide side, const SparseMethod& method, const SparseOptions& options, Density density);
  ~RedSync() override;

  const Plan& plan() const { return dense_.plan(); }

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  void flush() override;
  Costs costs() const override;
  double message_bytes() const override;
  std::vector<LedgerRow> ledger() const override;

  /// "residual"; the turn of signs, the selector and the ledger of every parameter; whether the last phase was dense.
  /// (U is in the optimiser.)
  void save(RankState& state) const override;
  void load(const StateDict& state) override;
  std::vector<RankState::Range> own_velocity() const override;

  /// V, laid out like the arena; between steps.
  const Tensor& residual() const { return residual_; }

 private:
  struct Layer {  // a parameter that sends a choice
    enum class Phase : std::uint8_t { idle, gathering, complete, under_way };
    Layer(Parameter& p, ResidualTensor t) : parameter(p), tensor(std::move(t)) {}
    Parameter& parameter;
    ResidualTensor tensor;
    Phase phase = Phase::idle;
    StepContext context;
    int slot = 0, priority = 0;
    bool by_nccl = false;
    /// On a CUDA device the communication thread chooses, so that no wait for the device holds up backward; not where
    /// somebody watches, and not by NCCL.
    bool chosen_late = false;
    double choosing_seconds = 0;  // of the communication thread, not in costs_ yet
    Pinned brought;               // what was chosen on a CUDA device, for a message that is made on the host
    compress::Bytes packet;
    Gathered gathered;
    std::unique_ptr<SplitExchange> split;
    Ticket ticket;
    std::int64_t hurried_until = 0;  // step: before it, gathered as soon as it is ready
    std::vector<Rows> late;          // ready, and to be gathered when backward has ended
    std::size_t buffer_bytes = 0;    // that messages took; of the last exchange that has ended
    LedgerAccount account;
  };

  /// by_nccl: a choice that is to be read when the device `has_come` to it, by going on with `choosing`.
  struct Asked {
    Layer* layer = nullptr;
    Steps choosing{};
    Event has_come{};
  };

  Layer* layer_of(const Parameter& p) { return layers_[static_cast<std::size_t>(p.info.index)].get(); }
  bool sparse() const { return density_.has_value(); }
  std::string prefix() const { return method_.name + std::string("/"); }  ///< of its state
  void ready(Parameter& parameter, Rows rows, float factor);
  void gather(Layer& layer, Rows rows, float factor);
  void before_choice(Layer& layer);
  void after_choice(Layer& layer);
  Steps choose(Layer& layer);
  void choose_now(Layer& layer);
  void ask_for_choice(Layer& layer);
  void read_choice();
  Task<> choose_late(Layer& layer, Communicator& comm);
  double gathered_bytes(const Layer& layer) const;
  void submit(Layer& layer);
  void submit_complete();
  void gather_late();
  void clip_and_gather();
  void await(Layer& layer);
  void apply(Layer& layer);
  void add_received(Layer& layer, float factor, Slice<float> dense);
  void change_phase(bool to_sparse);
  template <class F>
  void for_layers(F f) {
    for (std::size_t i = layers_.size(); i-- > 0;)
      if (layers_[i]) f(*layers_[i]);
  }

  const WorkerSide side_;
  const ParameterArena& arena_;
  Engine& engine_;
  const SparseMethod& method_;
  const SparseOptions options_;
  const Density density_in_;
  double clip_norm_;  // 0: no limit
  AllreduceSync dense_;
  Tensor velocity_, residual_;                  // velocity_: undefined without momentum correction
  std::vector<std::unique_ptr<Layer>> layers_;  // by place in the arena; null: travels densely
  StepContext context_;
  std::optional<double> density_;                       // of this step; nothing: dense
  bool was_sparse_ = false;                             // the step before
  std::vector<std::pair<Parameter*, Rows>> unclipped_;  // gradients that wait for their common norm
  bool some_are_late_ = false;                          // Layer::late: they wait for the end of backward
  Asked asked_;
  std::vector<compress::SparseView> views_;
  Costs costs_;
  double dense_bytes_ = 0;  // for the ledger: those of parameters that travelled whole
};

}  // namespace laconic::dist
