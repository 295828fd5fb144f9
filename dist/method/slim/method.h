#pragma once
#include "dist/method/ps/method.h"
#include "dist/method/slim/slim_sync.h"

namespace laconic::dist {

/// A choice of what workers have learned up, a choice of the parameters down (slim_sync.h).
class Slim final : public ServedMethod {
 public:
  std::string name() const override { return "slimdp"; }
  std::string summary() const override { return "ps with a part of the parameters (Slim-DP)"; }
  Traits traits() const override;
  void settings(Settings& settings) override;
  void check(const TrainingFacts& facts) const override;
  std::optional<Refusal> refuses(const std::string& setting) const override;
  void shape(PlanOptions& plan, const TrainingFacts& facts) const override;
  LedgerForm ledger() const override;
  std::string describe(const TrainingFacts& facts) const override;
  /// The chosen values pass through the codec, without feedback.
  Legs legs(const std::string& codec, bool feedback, std::uint64_t seed) const override;
  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override;
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override;

  SlimSync::Rules rules{};

 protected:
  std::optional<double> bytes_of_round(const Bucket& bucket, const Legs& legs) const override;
};

}  // namespace laconic::dist
