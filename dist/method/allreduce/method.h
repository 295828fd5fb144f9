#pragma once
#include "dist/method/method.h"

namespace laconic::dist {

/// The sum of all gradients, each bucket of the plan by its collective, hidden behind backward and the next forward
/// (allreduce_sync.h). What is set of it is the plan's.
class DenseAllreduce final : public Method {
 public:
  std::string name() const override { return "allreduce"; }
  std::string summary() const override { return "the sum of all gradients, by a collective"; }
  Traits traits() const override { return {.codec = true, .plan_is_all = true}; }
  void check(const TrainingFacts& facts) const override;
  std::unique_ptr<Strategy> worker(WorkerSide side) const override;
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override;
  std::string describe(const TrainingFacts& facts) const override;
};

}  // namespace laconic::dist
