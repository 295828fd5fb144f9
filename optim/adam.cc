#include <cmath>

#include "core/raw.h"
#include "core/update.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

constexpr double kEps = 1e-8;

/// Adam, and AdamW, whose decay is decoupled.
///   Adam    d = g + weight_decay w            AdamW   d = g,  w = w (1 - lr weight_decay) first
///   m = beta1 m + (1 - beta1) d     v = beta2 v + (1 - beta2) d^2
///   w -= lr / (1 - beta1^t)  m / (sqrt(v / (1 - beta2^t)) + eps)
/// source: Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2. Cost: one pass.
class Adam final : public Optimizer {
 public:
  Adam(const ParameterArena& arena, const OptimizerOptions& o)
      : Optimizer(arena, o),
        decoupled_(o.name == "adamw"),
        beta1_(o.beta1),
        beta2_(o.beta2),
        first_(arena.make_state()),
        second_(arena.make_state()) {}

  bool has_moments() const override { return true; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override {
    raw::adam(
        part.value, part.gradient, part.of(first_), part.of(second_),
        {.gradient_scale = static_cast<float>(gradient_scale),
         .weight_decay = decoupled_ ? 0.0f : static_cast<float>(part.weight_decay),
         .beta1 = static_cast<float>(beta1_),
         .beta2 = static_cast<float>(beta2_),
         .rest1 = static_cast<float>(1 - beta1_),
         .rest2 = static_cast<float>(1 - beta2_),
         .eps = static_cast<float>(kEps),
         .step_size = static_cast<float>(lr / (1 - std::pow(beta1_, static_cast<double>(t)))),
         .root_correction = static_cast<float>(std::sqrt(1 - std::pow(beta2_, static_cast<double>(t - missed())))),
         .keep = keep(lr, part)});
  }
  /// g = beta1 m + (1 - beta1) d
  void form(const Part& part) override {
    if (!decoupled_ && part.weight_decay > 0)
      raw::axpy(part.gradient, static_cast<float>(part.weight_decay), part.value);
    raw::scale(part.gradient, static_cast<float>(1 - beta1_));
    raw::axpy(part.gradient, static_cast<float>(beta1_), part.of(first_));
  }
  /// m = g, and the step by it: Adam's update where beta1 is 0 and beta2 is 1.
  void take(const Part& part, double lr, std::int64_t t, std::int64_t updates_of_v) override {
    raw::adam(
        part.value, part.gradient, part.of(first_), part.of(second_),
        {.gradient_scale = 1,
         .weight_decay = 0,
         .beta1 = 0,
         .beta2 = 1,
         .rest1 = 1,
         .rest2 = 0,
         .eps = static_cast<float>(kEps),
         .step_size = static_cast<float>(lr / (1 - std::pow(beta1_, static_cast<double>(t)))),
         .root_correction = static_cast<float>(std::sqrt(1 - std::pow(beta2_, static_cast<double>(updates_of_v)))),
         .keep = keep(lr, part)});
  }
  /// A decoupled decay multiplies a weight by this.
  float keep(double lr, const Part& part) const {
    return decoupled_ ? static_cast<float>(1 - lr * part.weight_decay) : 1.0f;
  }
  Tensor first_moment() const override { return first_; }
  Tensor second_moment() const override { return second_; }
  std::vector<StateDict::Entry> arenas() const override {
    return {{"first_moment", first_}, {"second_moment", second_}};
  }

  const bool decoupled_;
  const double beta1_, beta2_;
  Tensor first_, second_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const ParameterArena& arena, const OptimizerOptions& options) {
  return std::make_unique<Adam>(arena, options);
}

}  // namespace laconic
