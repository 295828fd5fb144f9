#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dist/method/redsync/choosing.h"

namespace laconic::dist {

/// Residual gradient compression: a rank adds the gradients of a parameter up in a residual, sends the elements of the
/// residual that have grown large, and keeps the rest. All that the plan does not name travels densely (LayerSync),
/// with ordinary momentum. phases.h is about dense phases, choosing.h about when and on which thread elements are
/// chosen, dist/method/carry.h about how they come to all ranks.
///
/// Per element, what was sent and the residual add up to what was put into the residual, over all ranks: nothing is
/// lost (with `quantised` and without `feedback` the error of the one value is, as in the paper).
/// After a flush all ranks hold the same bits, if they began with the same, whatever the overlap.
///
/// Momentum correction means that U is each worker's own and w takes what was sent as it is; weight decay goes into V.
/// Without it (`corrects` is false) V += G, and the sum of what was sent is the gradient of the ordinary update, with
/// the optimiser's momentum.
///
/// `clip` norm limits the 2-norm of each rank's own gradient before it is gathered; all selection then waits for the
/// end of backward. DGC's local clipping; of a mean over N ranks, X sqrt(N) stands for X (settled).
///
/// source  RedSync Algorithm 4; DGC (momentum correction, masking); gradient dropping (Aji & Heafield 2017), AdaComp
///         (Chen et al. 2018), Strom 2015 by other choices
/// throws  UsageError, CommError as AllreduceSync; CommError naming the rank whose message is none
class RedSync final : public LayerSync {
 public:
  /// Parameters that send a choice keep their U in side.velocity. side.update is called for those that travel densely,
  /// and for all if momentum is not corrected.
  RedSync(WorkerSide side, const SparseMethod& method, const SparseOptions& options, Density density);
  ~RedSync() override { halt_what_is_under_way(); }

  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  double message_bytes() const override;

  std::vector<RankState::Range> own_velocity() const override;

  /// V, laid out like the arena; between steps.
  const Tensor& residual() const { return kept_; }

 private:
  std::unique_ptr<Layer> make_layer(Parameter& parameter, const Bucket& bucket);
  Layer* layer_of(const Parameter& p) const { return layer_as<Layer>(p); }
  bool is_dense(std::int64_t step) override { return !(density_ = density_in_(step)); }
  void cross(bool to_dense) override;
  bool gathers(const Parameter& parameter) const;
  void take(Parameter& parameter, Rows rows, float factor);
  void end_backward();
  float clip();
  void send(LayerExchange& layer) override;
  void send_all() override;
  void apply(LayerExchange& layer) override;

  const SparseMethod& method_;
  const SparseOptions options_;
  const Density density_in_;
  const double clip_norm_;         // 0: no limit
  std::optional<double> density_;  // of this step; nothing: dense
  Choosing choosing_;
  std::vector<std::pair<Parameter*, Rows>> waiting_;  // gradients that wait for the end of backward
};

}  // namespace laconic::dist
