#include "dist/method/method.h"

#include "dist/method/none/no_sync.h"

namespace laconic::dist {
namespace {

/// Each worker trains by itself, and nothing travels: what computing takes alone.
class NoExchange final : public Method {
 public:
  std::string name() const override { return "none"; }
  std::string summary() const override { return "each worker trains by itself"; }
  Traits traits() const override { return {.joins = false, .same_bits = false, .on_ghosts = true}; }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<NoSync>(side.arena, std::move(side.update));
  }
  std::optional<double> expected_bytes(const Plan&, const std::vector<std::shared_ptr<Parameter>>&,
                                       const TrainingFacts&) const override {
    return 0;
  }
};

}  // namespace

std::unique_ptr<Method> make_none() { return std::make_unique<NoExchange>(); }

}  // namespace laconic::dist
