#pragma once
#include "core/ops/local_response_norm.h"
#include "layers/module.h"

namespace laconic {

/// y[c] = x[c] / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta:
/// core/ops/local_response_norm.h.
class LocalResponseNorm final : public Module {
 public:
  using Options = ops::LocalResponseNormOptions;
  explicit LocalResponseNorm(Options o) : o_(o) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::local_response_norm(x, o_); }

 private:
  Options o_;
};

}  // namespace laconic
