#pragma once
#include "layers/module.h"

namespace laconic {

/// y = x w' + b.
///   x : [N, in]   ->   y : [N, out]
///   w : [out, in] "weight",  b : [out] "bias"   ~ Uniform(-k, k),  k = 1/sqrt(in)  (PyTorch's default)
/// A shared weight keeps the name, role and initial values of its first layer; its gradient is ready after both uses.
/// Throws ShapeError if x is not [N, in] (flatten images first), or a shared weight not [out, in].
class Linear final : public Module, public FusesRelu {
 public:
  struct Options {
    int in = 0, out = 0;
    bool bias = true;
    bool output = false;  ///< this layer makes the predictions (ParameterInfo::output)
    std::shared_ptr<Parameter> weight = nullptr;  ///< [out, in] of another layer, to be shared (an Embedding's)
    Initializer init = nullptr, init_bias = nullptr;  ///< of w and b, instead of that
  };
  explicit Linear(Options o);
  /// max(y, 0) in the same pass over memory.
  Tensor forward_relu(const Tensor& x) override;
  const std::shared_ptr<Parameter>& weight() const { return w_; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<Parameter> w_, b_;
};

}  // namespace laconic
