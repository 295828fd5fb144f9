#pragma once
#include "core/ops/activation.h"
#include "layers/module.h"

namespace laconic {

/// y = max(x, 0). In a Sequential, a layer in front that can (FusesRelu) does it in its own pass.
class ReLU final : public Module {
 public:
  struct Options {};
  explicit ReLU(Options = {}) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::relu(x); }
};

/// y = tanh(x).
class Tanh final : public Module {
 public:
  struct Options {};
  explicit Tanh(Options = {}) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::tanh(x); }
};

/// y = 1 / (1 + exp(-x)).
class Sigmoid final : public Module {
 public:
  struct Options {};
  explicit Sigmoid(Options = {}) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::sigmoid(x); }
};

}  // namespace laconic
