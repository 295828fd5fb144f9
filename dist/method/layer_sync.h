#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/method/allreduce_sync.h"
#include "dist/method/ledger_account.h"

namespace laconic::dist {

/// A parameter that travels in a way of its own, on one rank.
struct LayerExchange {
  enum class Phase : std::uint8_t { idle, gathering, complete, under_way };

  LayerExchange(Parameter& p, const Bucket& bucket, std::int64_t ledger_every, LedgerAccount::Of of)
      : parameter(p),
        priority(bucket.priority),
        account(p.info.name, to_string(bucket.choice), p.info.elements, ledger_every, of) {}
  virtual ~LayerExchange() = default;

  Parameter& parameter;
  const int priority;
  int slot = 0;
  bool by_nccl = false;
  Phase phase = Phase::idle;
  StepContext context{};  ///< the step that it gathers for
  Ticket ticket{};
  std::size_t buffer_bytes = 0;  ///< memory of the messages of the last exchange that has ended
  LedgerAccount account;

  virtual LedgerRow ledger_row() const { return account.row(); }
  /// Adds what it keeps from step to step besides, under names that begin with `prefix`.
  virtual void keep_in(StateTable& table, const std::string& prefix) = 0;
};

/// The base of strategies under which some parameters travel in a way of their own, layer by layer, and all others
/// densely, as AllreduceSync sends them. The plan says which (Bucket::sparse). In a dense phase all travel densely.
///
///     gathering    some of a layer's gradient has come
///     complete     all of it has, and what travels can be handed over
///     under_way    it has been
///
/// Here are phases, slots, tickets, the turns of NCCL, costs, the ledger, and the table of state: "NAME/" and the kept
/// tensor's name, "NAME/PARAMETER/" what layers keep.
///   throws  UsageError, CommError as AllreduceSync
class LayerSync : public AllreduceSync {
 public:
  void begin_step(const StepContext& context) override;
  void flush() override;
  Costs costs() const override;
  std::vector<LedgerRow> ledger() const override;

 protected:
  using Phase = LayerExchange::Phase;
  /// kept, what : the tensor that every worker keeps, laid out like the arena: its name, and for errors "the residual"
  LayerSync(WorkerSide side, std::string name, const std::string& kept, const std::string& what);
  /// Calls make() for each parameter that the plan has travel in a way of its own. Takes a slot of the engine for each.
  void make_layers(const std::function<std::unique_ptr<LayerExchange>(Parameter&, const Bucket&)>& make);

  /// Halts the engine if anything is under way, because an exception passes. For destructors of derived classes.
  void halt_what_is_under_way();

  /// Whether this step is dense.
  virtual bool is_dense(std::int64_t step) = 0;
  /// A phase has ended, and nothing is under way.
  virtual void cross(bool /*to_dense*/) {}
  /// Submits a layer that is complete.
  virtual void send(LayerExchange& layer) = 0;
  /// Sends all that is complete. After a flush nothing may be missing.
  virtual void send_all();
  /// It has come: waits, and updates.
  virtual void apply(LayerExchange& layer) = 0;

  /// Before rows are gathered: whether they are the first of this step.
  /// throws Error if the layer's last update has not been applied
  bool begin_gathering(LayerExchange& layer);
  /// Sends it, now, or, by NCCL, when it has its turn. Nothing happens with Overlap::none.
  void hand_over_layer(LayerExchange& layer);
  void submit(LayerExchange& layer, std::string name, std::function<Task<>(Communicator&)> body);
  /// Waits for it. It is idle afterwards.
  void finish(LayerExchange& layer);
  /// The layer of a parameter; null: it travels densely.
  template <class L>
  L* layer_as(const Parameter& p) const {
    return static_cast<L*>(layers_[static_cast<std::size_t>(p.info.index)].get());
  }
  /// In the order in which forward reaches them.
  template <class L, class F>
  void for_layers(F f) const {
    for (std::size_t i = layers_.size(); i-- > 0;)
      if (layers_[i]) f(static_cast<L&>(*layers_[i]));
  }

  const WorkerSide side_;
  const std::string name_;
  const Tensor kept_;
  bool dense_phase_ = true;  // this step, and after loading the last one

 private:
  std::vector<std::unique_ptr<LayerExchange>> layers_;  // by place in the arena; null: travels densely
  double dense_bytes_ = 0;  // for the ledger: what parameters that travelled whole have cost
};

}  // namespace laconic::dist
