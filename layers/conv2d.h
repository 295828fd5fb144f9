#pragma once
#include "core/ops/conv2d.h"
#include "layers/module.h"

namespace laconic {

/// 2-d convolution (cross-correlation), NCHW, float32.
///   y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] * x[n, c, i*stride + u*dilation - pad, j*stride + v*dilation - pad]
///   x : [N, in, H, W]   ->   y : [N, out, H', W'],
///   H' = (H + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down
///   w : [out, in/groups, kernel, kernel] "weight",  b : [out] "bias"   ~ Uniform(-k, k),
///   k = 1/sqrt(in/groups kernel^2)  (PyTorch's default)
/// Throws ShapeError if x is not 4-d or has another number of channels than `in`, or groups divide neither.
class Conv2d final : public Module, public FusesRelu {
 public:
  struct Options {
    int in = 0, out = 0, kernel = 3, stride = 1, pad = 0, dilation = 1, groups = 1;
    bool bias = true;
    Initializer init = nullptr, init_bias = nullptr;  ///< of w and b, instead of that
  };
  explicit Conv2d(Options o);
  /// max(y, 0) in the same pass over memory.
  Tensor forward_relu(const Tensor& x) override;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  ops::Conv2dOptions o_;
  std::shared_ptr<Parameter> w_, b_;
};

}  // namespace laconic
