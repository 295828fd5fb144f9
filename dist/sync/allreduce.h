#pragma once
#include <vector>

#include "dist/engine.h"
#include "dist/plan.h"
#include "dist/sync/strategy.h"

namespace laconic::dist {

/// Dense gradient exchange, hidden behind backward and the next forward: a bucket of the plan is handed to the engine
/// when the gradients of all its parameters are ready, straight from the arena; before a parameter's next forward the
/// compute thread waits for its bucket only, divides by N, and updates the bucket's parameters.
/// After a flush all ranks hold the same bits, if they began with the same.
/// throws  CommError from before_forward, end_step or flush if a rank is lost
/// source  HybridAR (overlap through the next forward); PyTorch DDP (buckets)
class AllreduceSync final : public Strategy {
 public:
  struct Options {
    bool mean = true;  ///< --reduce mean: the sum over ranks is divided by N; else it is left a sum
  };
  /// Arena and engine must outlive the strategy. Takes one slot of the engine per bucket.
  AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update)
      : AllreduceSync(arena, engine, std::move(plan), std::move(update), Options{}) {}
  AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update, Options options);
  /// Halts the engine if gradients are still under way (an exception passes): it must not work in a freed arena.
  ~AllreduceSync() override;

  const Plan& plan() const { return plan_; }

  void begin_step(const StepContext& context) override { context_ = context; }
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step(StepStats& stats) override;
  void flush() override;

 private:
  struct State {                 // of one bucket
    std::int64_t waits_for = 0;  // elements whose gradient is not ready yet
    bool pending = false;        // handed to the engine, not applied
    Ticket ticket;
    StepContext context;
  };
  void submit(std::size_t bucket);
  void apply(std::size_t bucket);
  Parameter& parameter(int place) const { return *arena_.parameters()[static_cast<std::size_t>(place)]; }

  const ParameterArena& arena_;
  Engine& engine_;
  const Plan plan_;
  Update update_;
  const Options options_;
  StepContext context_;
  std::vector<State> states_;  // by bucket
  int first_slot_;
  std::uint64_t dense_bytes_;
  EngineCounters seen_;  // at the last end_step
  double update_seconds_ = 0;
};

}  // namespace laconic::dist
