#pragma once
#include "dist/method/method.h"

namespace laconic::dist {

/// Each worker trains by itself, and nothing travels: what computing takes alone.
class NoExchange final : public Method {
 public:
  std::string name() const override { return "none"; }
  std::string summary() const override { return "each worker trains by itself"; }
  Traits traits() const override { return {.joins = false, .same_bits = false}; }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override;
  std::optional<double> expected_bytes(const Plan&, const std::vector<std::shared_ptr<Parameter>>&,
                                       const TrainingFacts&) const override {
    return 0;
  }
};

}  // namespace laconic::dist
