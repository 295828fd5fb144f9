#include <cmath>

#include "core/update.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

/// Adam, and AdamW, whose decay is decoupled.
///   Adam    d = g + weight_decay w            AdamW   d = g,  w = w (1 - lr weight_decay) first
///   m = beta1 m + (1 - beta1) d     v = beta2 v + (1 - beta2) d^2
///   w -= lr / (1 - beta1^t)  m / (sqrt(v / (1 - beta2^t)) + eps)
/// source: Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2. Cost: one pass.
class Adam final : public Optimizer {
 public:
  Adam(const ParameterArena& arena, const OptimizerOptions& o)
      : Optimizer(arena, o.name),
        decay_(o.decay),
        decoupled_(o.name == "adamw"),
        first_(arena.make_state()),
        second_(arena.make_state()) {}

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override {
    const double decay = decay_.of(part.info);
    raw::adam(part.value, part.gradient, part.of(first_), part.of(second_),
              {.gradient_scale = static_cast<float>(gradient_scale),
               .weight_decay = decoupled_ ? 0.0f : static_cast<float>(decay),
               .beta1 = static_cast<float>(kBeta1),
               .beta2 = static_cast<float>(kBeta2),
               .eps = static_cast<float>(kEps),
               .step_size = static_cast<float>(lr / (1 - std::pow(kBeta1, static_cast<double>(t)))),
               .root_correction = static_cast<float>(std::sqrt(1 - std::pow(kBeta2, static_cast<double>(t)))),
               .keep = decoupled_ ? static_cast<float>(1 - lr * decay) : 1.0f});
  }
  std::vector<StateDict::Entry> arenas() const override {
    return {{"first_moment", first_}, {"second_moment", second_}};
  }

  const Decay decay_;
  const bool decoupled_;
  Tensor first_, second_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const ParameterArena& arena, const OptimizerOptions& options) {
  return std::make_unique<Adam>(arena, options);
}

}  // namespace laconic
