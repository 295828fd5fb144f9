#pragma once
#include "dist/method/layer_drop/layer_drop_sync.h"
#include "dist/method/ps/method.h"

namespace laconic::dist {

/// Layers of small gradients stay at home (layer_drop_sync.h).
class LayerDrop final : public ServedMethod {
 public:
  std::string name() const override { return "layerdrop"; }
  std::string summary() const override { return "ps without layers of small gradients"; }
  Traits traits() const override;
  void settings(Settings& settings) override;
  void check(const TrainingFacts& facts) const override;
  std::optional<Refusal> refuses(const std::string& setting) const override;
  void shape(PlanOptions& plan, const TrainingFacts& facts) const override;
  LedgerForm ledger() const override;
  std::string describe(const TrainingFacts& facts) const override;
  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override;
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override;

  LayerDropSync::Rules rules{};
  bool finest = false;  ///< a layer is one parameter, not all of one module

 protected:
  std::optional<double> bytes_of_round(const Bucket&, const Legs&) const override { return std::nullopt; }
};

}  // namespace laconic::dist
