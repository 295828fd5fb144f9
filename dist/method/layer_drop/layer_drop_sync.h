#pragma once
#include <vector>

#include "compress/select/layer_drop.h"
#include "dist/method/ps/ps_sync.h"

namespace laconic::dist {

/// Stands ahead of each message about a layer. Alone it says that the layer was dropped.
///
///     little-endian   step : u32 | version : u32 | comes : u32     1: the floats follow; 0: nothing does
struct LayerHeader {
  std::uint32_t step = 0;     ///< of the round
  std::uint32_t version = 0;  ///< up: the one that the worker holds; down: the one that it holds from now on
  std::uint32_t comes = 0;
};
static_assert(sizeof(LayerHeader) == 12);

/// Layer dropping, the workers' half (layer_drop_server.cc has the other): of each layer, a bucket of the plan,
/// the worker adds up its gradients and sends the sum when its value reaches a threshold; until then a placeholder of
/// 12 bytes goes each way, and the layer keeps its values where no worker sent it.
///
///     when a layer's gradient is ready   accum += g;  v = value(accum)                             one pass
///                                        v >= threshold, or too old: send accum, begin anew;  else keep it
///     every so many steps, and when      threshold = Algorithm 1 over the v of this step, this worker's own; from the
///     the learning rate has changed      next step on. Until there is one, everything is sent
///     by more than a tenth since
///     before its next forward            what came, if anything did
///
/// With feedback, the loss of a codec stays behind and is in the next sum that is sent.
///
/// In groups the decision is the group's, on the sum of its gradients: its first member gathers and decides, when the
/// sum is there, and so all layers' values are known at the end of a step only: steps that find a threshold wait for
/// them.
///
/// A ghost's layer has no value, and takes turns: each is sent in a share of 1 - R of the steps, by all workers in the
/// same ones, different layers in different ones. So the way down is as short as the way up, as it is where workers
/// choose alike. Where shares were measured (TrainingFacts::layer_shares) these hold. Then as many groups of workers
/// send a layer in different steps as make the way down longer than the way up.
///
/// Per element, what was sent and what is kept add up to what was accumulated. With a ratio of 0 the bits are those of
/// PsSync. After a flush all workers hold the same bits, which are the server's.
/// source  LayerDrop, sections 4 and 5, Algorithm 1 (settled: R is the share that stays at home; as printed it would be
///         the share sent)
class LayerDropSync final : public PsSync {
 public:
  struct Rules {
    double drop_ratio = 0.9;             ///< R in [0, 1)
    std::int64_t threshold_every = 100;  ///< steps; 0: only when the learning rate changes
    compress::LayerNorm norm = compress::LayerNorm::mean;
    std::int64_t max_age = 0;   ///< a layer is sent at least every so many steps; 0: never for its age
    bool keeps_losses = false;  ///< what a codec loses of a sum stays behind, in place of Legs::keeps_losses
  };
  LayerDropSync(WorkerSide side, Options options, const Rules& rules);
  ~LayerDropSync() override { halt_what_is_under_way(); }

  void end_step() override;

  /// The sums that are kept at home, laid out like the arena. Undefined for a layer that keeps nothing. For audits and
  /// tests.
  Slice<const float> kept(std::size_t bucket) const;

 private:
  struct Layer {
    std::int64_t keeps = 0;     // 1: something is put by in accumulated_
    bool sends = false;         // this step's decision
    std::uint32_t comes = 0;    // what the server has answered: 1 or 0
    double select_seconds = 0;  // of this step's decision
    std::int64_t age = 0;       // steps since it was sent
    std::int64_t version = 0;
    double value = 0;
    std::int64_t times_sent = 0, times_received = 0;
  };
  /// Whether layers are decided on by the communication thread: when a group's sum is there, or where that takes a wait
  /// for the device, which backward must not have.
  bool decides_late() const { return grouped() || accumulated_.device().kind == Device::Kind::cuda; }
  void make_table();
  void decide(std::size_t bucket);
  /// Whether it is the turn of a ghost's layer.
  bool has_turn(std::size_t bucket) const;
  void filled(std::size_t bucket) override;
  Task<> spread(Communicator& group, std::size_t bucket) override;
  Task<> talk(Communicator& comm, std::size_t bucket, StepContext context) override;
  void arrived(std::size_t bucket) override;
  void account(std::size_t bucket, LedgerRow& row) const override;
  Slice<float> accumulated(std::size_t b) const { return part(accumulated_, bucket(b)); }

  const Rules rules_;
  Tensor accumulated_;  // laid out like the arena
  std::vector<Layer> layers_;
  double threshold_ = -1;            // everything is sent
  std::int64_t threshold_step_ = 0;  // when it was found; 0: not yet
  double threshold_lr_ = 0;          // the learning rate then
  std::int64_t steps_ = 0;
  bool valued_ = false;  // this step has gradients, and layers have its values by its end
};

/// The servers' half.
std::unique_ptr<ParameterServer> make_layer_drop_server(ServerSide side, ParameterServer::Options options);

}  // namespace laconic::dist
