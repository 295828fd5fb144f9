#pragma once
#include <functional>
#include <optional>
#include <utility>

#include "core/stream.h"
#include "dist/method/carry.h"
#include "dist/method/layer_sync.h"
#include "dist/method/redsync/residual_tensor.h"

namespace laconic::dist {

/// A parameter that sends a choice, on one rank.
struct Layer final : LayerExchange {
  Layer(Parameter& p, const Bucket& bucket, ResidualTensor tensor, Carry::Form form, std::int64_t ledger_every)
      : LayerExchange(p, bucket, ledger_every, LedgerAccount::Of::choices),
        residual(std::move(tensor)),
        carry(std::move(form)) {}
  ResidualTensor residual;
  Carry carry;
  std::int64_t hurried_until = 0;  ///< step: before it, gathered as soon as its gradient is ready
  double late_seconds = 0;         ///< choosing on the communication thread, until the exchange has ended

  /// Masks = select(V, D), V and U without them, and the message. It touches nothing but this layer.
  Steps choose();

  void keep_in(StateTable& table, const std::string& prefix) override { table.object(prefix, residual); }
};

/// When a gradient is gathered, when elements are chosen, and on which thread. It decides no bit.
///
///     gathered   as soon as it is ready; or when backward has ended, the parameters that forward needs first coming
///                first: with Overlap::forward those whose exchange nobody has had to wait for in the last 50 steps,
///                since the messages that forward needs first are then on their way and the rest fills the time until
///                they have come; and all of them, if gradients are clipped by their common norm
///     chosen     in host memory, or if somebody watches: at once. On a CUDA device: on the communication thread, so
///                that no wait for the device holds up backward. By NCCL: on the compute thread, since the order of
///                its messages is one for all ranks; but read when the next gradient has been gathered, so that the
///                device has work while the host waits
class Choosing {
 public:
  /// seconds : of the compute thread, are added up there.   hand_over : called for a layer whose message may go
  Choosing(const WorkerSide& side, double& seconds, std::function<void(Layer&)> hand_over);

  /// Whether gathering this layer may wait for the end of backward, in this step.
  bool may_wait(const Layer& layer, std::int64_t step) const;
  /// Notes how long forward waited for this layer.
  static void waited(Layer& layer, double seconds);

  /// Chooses from a layer all of whose gradient has been gathered, and hands it over.
  void choose(Layer& layer);
  void read_last();  ///< the choice that was asked for last, if there is one
  /// Whether the communication thread chooses, and does so.
  bool late(const Layer& layer) const;
  Task<> choose_late(Layer& layer, Communicator& comm) const;

 private:
  void before(Layer& layer) const;
  static void after(Layer& layer);

  const WorkerSide& side_;
  const Device device_;
  double& seconds_;
  const std::function<void(Layer&)> hand_over_;
  /// A choice that is to be read when the device has come to it, by going on with its steps.
  struct Asked {
    Layer* layer = nullptr;
    Steps steps{};
    bool waits = false;
    Event has_come{};
  };
  std::optional<Asked> asked_;
};

}  // namespace laconic::dist
