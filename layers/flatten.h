#pragma once
#include "core/ops/reshape.h"
#include "layers/module.h"

namespace laconic {

/// [N, C, H, W] -> [N, C H W], in the order of PyTorch's weights.
class Flatten final : public Module {
 public:
  struct Options {};
  explicit Flatten(Options = {}) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::flatten(x); }
};

}  // namespace laconic
