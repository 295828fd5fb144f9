#include "dist/method/allreduce_sync.h"

namespace laconic::dist {
namespace {

/// The sum of all gradients, each bucket of the plan by its collective, hidden behind backward and the next forward
/// (allreduce_sync.h). What is set of it is the plan's.
class DenseAllreduce final : public Method {
 public:
  std::string name() const override { return "allreduce"; }
  std::string summary() const override { return "the sum of all gradients, by a collective"; }
  Traits traits() const override { return {.codec = true, .plan_is_all = true, .on_ghosts = true}; }

  void check(const TrainingFacts& facts) const override { require_codec_fits(facts.plan); }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<AllreduceSync>(side.arena, side.engine, side.plan, std::move(side.update), side.facts);
  }

  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>&,
                                       const TrainingFacts& facts) const override {
    return bytes_of_step(plan, facts.workers);
  }

  std::string describe(const TrainingFacts& facts) const override {
    return facts.plan_file.empty() ? "allreduce, " + facts.plan.allreduce : "allreduce by " + facts.plan_file;
  }
};

}  // namespace

std::unique_ptr<Method> make_allreduce() { return std::make_unique<DenseAllreduce>(); }

}  // namespace laconic::dist
