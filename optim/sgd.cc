#include <cmath>

#include "core/base/error.h"
#include "core/update.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

/// Stochastic gradient descent.
///   d = g + weight_decay w
///   momentum = 0:  w -= lr d
///   else           v = momentum v + (1 - dampening) d   (the first time v = d);   w -= lr v
///   nesterov       w -= lr (d + momentum v)
/// source: Sutskever et al. 2013, with PyTorch's meaning of lr, dampening and the first step. Cost: one pass.
class Sgd final : public Optimizer {
 public:
  Sgd(const ParameterArena& arena, const OptimizerOptions& o) : Optimizer(arena, o), o_(o) {
    require<UsageError>(o.momentum >= 0 && o.momentum < 1, "sgd: momentum is ", o.momentum,
                        ", it must be from 0 up to but not 1. Correct `momentum`.");
    require<UsageError>(std::isfinite(o.dampening), "sgd: dampening is ", o.dampening, ", it must be finite.");
    require<UsageError>(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "sgd: nesterov with momentum ", o.momentum,
                        " and dampening ", o.dampening, ". It needs momentum above 0 and no dampening.");
    if (o.momentum > 0) momentum_ = arena.make_state();
  }
  Tensor momentum() const override { return momentum_; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override {
    raw::sgd(part.value, part.gradient, momentum_.defined() ? part.of(momentum_) : Tensor(),
             {.lr = static_cast<float>(lr),
              .gradient_scale = static_cast<float>(gradient_scale),
              .weight_decay = static_cast<float>(part.weight_decay),
              .momentum = static_cast<float>(o_.momentum),
              .dampening = static_cast<float>(o_.dampening),
              .nesterov = o_.nesterov,
              // else 0 in the buffer does the same, and what a strategy put there stays
              .first = t == 1 && o_.dampening != 0});
  }
  std::vector<StateDict::Entry> arenas() const override {
    if (!momentum_.defined()) return {};
    return {{"momentum", momentum_}};
  }

  const OptimizerOptions o_;
  Tensor momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const ParameterArena& arena, const OptimizerOptions& options) {
  return std::make_unique<Sgd>(arena, options);
}

}  // namespace laconic
