#pragma once
#include <vector>

#include "dist/method/strategy.h"

namespace laconic::dist {

/// Computing alone: no messages, each worker its own update. An update waits for the next forward of its rows, as in
/// the strategies that communicate, so that step times compare.
class NoSync : public Strategy {
 public:
  /// The arena must outlive the strategy.
  NoSync(const ParameterArena& arena, Update update);

  void begin_step(const StepContext& context) override { context_ = context; }
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override {}
  void flush() override;
  Costs costs() const override { return {.update_seconds = update_seconds_}; }

 private:
  struct Pending {
    std::vector<Rows> rows;  // ready and not applied
    StepContext context;
  };
  const ParameterArena& arena_;
  Update update_;
  StepContext context_;
  std::vector<Pending> pending_;  // by place in the arena
  double update_seconds_ = 0;
};

}  // namespace laconic::dist
