#pragma once
#include "layers/module.h"

namespace laconic {

/// y = x w' + b.
///   x : [N, in]   ->   y : [N, out]
///   w : [out, in] "weight",  b : [out] "bias"   ~ Uniform(-k, k),  k = 1/sqrt(in)  (PyTorch's default)
/// Throws ShapeError if x is not [N, in]: flatten images first.
class Linear final : public Module, public FusesRelu {
 public:
  struct Options {
    int in = 0, out = 0;
    bool bias = true;
    bool output = false;  ///< this layer makes the predictions (ParameterInfo::output)
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
