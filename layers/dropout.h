#pragma once
#include "core/ops/dropout.h"
#include "layers/module.h"

namespace laconic {

/// Training: y = x / (1 - p) with probability 1 - p, else 0. Evaluation, or a context with dropout = false: y = x.
/// Masks come from the ForwardContext (seed, step, first sample) and this layer's position in the model: the same for
/// any number of workers and threads.   source: Srivastava et al. 2014
class Dropout final : public Module {
 public:
  struct Options {
    float p = 0.5f;
    bool time_first = false;  ///< x is [T, B, ...]: samples are along B (language models)
  };
  explicit Dropout(Options o) : o_(o) {
    require<ShapeError>(o.p >= 0 && o.p < 1, "Dropout: p = ", o.p, " is not in [0, 1).");
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const ForwardContext& c = context();
    if (!training() || !c.dropout) return x;
    const auto layer = static_cast<std::uint32_t>(position());
    return ops::dropout(x, o_.p, {c.seed, layer, c.step, c.first_sample, o_.time_first});
  }

 private:
  Options o_;
};

}  // namespace laconic
