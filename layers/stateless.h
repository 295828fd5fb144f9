#pragma once
#include "core/ops/dropout.h"
#include "core/ops/functions.h"
#include "core/ops/local_response_norm.h"
#include "core/ops/pool.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "layers/module.h"

// Layers without parameters: each applies one operation.
namespace laconic {

/// y = max(x, 0). In a Sequential, a layer in front that can (FusesRelu) does it in its own pass.
class ReLU final : public Module {
  Tensor forward(const Tensor& x) override { return ops::relu(x); }
};

/// y = tanh(x).
class Tanh final : public Module {
  Tensor forward(const Tensor& x) override { return ops::tanh(x); }
};

/// y = 1 / (1 + exp(-x)).
class Sigmoid final : public Module {
  Tensor forward(const Tensor& x) override { return ops::sigmoid(x); }
};

/// y = x Phi(x), Phi the normal distribution function; with `tanh` the approximation that GPT-2 was trained with,
/// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).   source: Hendrycks & Gimpel 2016
class GELU final : public Module {
 public:
  struct Options {
    bool tanh = false;
  };
  GELU() = default;
  explicit GELU(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return o_.tanh ? ops::gelu_tanh(x) : ops::gelu(x); }
  Options o_;
};

/// y = x / (1 + exp(-x)).   source: Elfwing et al. 2018
class SiLU final : public Module {
  Tensor forward(const Tensor& x) override { return ops::silu(x); }
};

/// y = x above 0, else slope x.   source: Maas et al. 2013
class LeakyReLU final : public Module {
 public:
  struct Options {
    float slope = 0.01f;
  };
  LeakyReLU() = default;
  explicit LeakyReLU(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::leaky_relu(x, o_.slope); }
  Options o_;
};

/// y = e^x / sum e^x along a dimension.
class Softmax final : public Module {
 public:
  struct Options {
    int dim = -1;
  };
  Softmax() = default;
  explicit Softmax(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::softmax(x, o_.dim); }
  Options o_;
};

/// Larger images: every pixel `scale` times in both directions, or bilinear between their centres (PyTorch's
/// align_corners=False).   x : [N, C, H, W]  ->  y : [N, C, scale H, scale W]
class Upsample final : public Module {
 public:
  struct Options {
    int scale = 2;
    bool bilinear = false;
  };
  explicit Upsample(Options o) : o_(o) {
    require<ShapeError>(o.scale >= 1, "Upsample: scale = ", o.scale, " must be at least 1.");
  }

 private:
  Tensor forward(const Tensor& x) override { return ops::upsample2d(x, o_.scale, o_.bilinear); }
  Options o_;
};

/// y = x: the shortcut of a residual Add.
class Identity final : public Module {
  Tensor forward(const Tensor& x) override { return x; }
};

/// [N, C, H, W] -> [N, C H W], in the order of PyTorch's weights.
class Flatten final : public Module {
  Tensor forward(const Tensor& x) override { return ops::flatten(x); }
};

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

 private:
  Tensor forward(const Tensor& x) override {
    const ForwardContext& c = context();
    if (!training() || !c.dropout) return x;
    const auto layer = static_cast<std::uint32_t>(position());
    return ops::dropout(x, o_.p, {c.seed, layer, c.step, c.first_sample, o_.time_first});
  }
  Options o_;
};

/// y[c] = x[c] / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta:
/// core/ops/local_response_norm.h.
class LocalResponseNorm final : public Module {
 public:
  using Options = ops::LocalResponseNormOptions;
  explicit LocalResponseNorm(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::local_response_norm(x, o_); }
  Options o_;
};

/// Largest value of each kernel x kernel window.   x : [N, C, H, W]  ->  y : [N, C, H', W'],
///   H' = (H + 2 pad - kernel) / stride + 1, rounded down (up with ceil_mode).   stride 0: the same as kernel
/// Throws ShapeError if x is not 4-d or smaller than a window, or pad > kernel / 2.
class MaxPool2d final : public Module {
 public:
  struct Options {
    int kernel = 2, stride = 0, pad = 0;
    bool ceil_mode = false;
  };
  explicit MaxPool2d(Options o) : o_{.kernel = o.kernel, .stride = o.stride, .pad = o.pad, .ceil_mode = o.ceil_mode} {}

 private:
  Tensor forward(const Tensor& x) override { return ops::max_pool2d(x, o_); }
  ops::PoolOptions o_;
};

/// Mean of each window; shapes as MaxPool2d. With count_include_pad the padding's zeros count as values.
class AvgPool2d final : public Module {
 public:
  using Options = ops::PoolOptions;
  explicit AvgPool2d(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::avg_pool2d(x, o_); }
  Options o_;
};

/// Mean over windows that make the output [N, C, out_h, out_w] whatever the input; 1 x 1 is the global average.
class AdaptiveAvgPool2d final : public Module {
 public:
  struct Options {
    int out_h = 1, out_w = 1;
  };
  explicit AdaptiveAvgPool2d(Options o) : o_(o) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::adaptive_avg_pool2d(x, o_.out_h, o_.out_w); }
  Options o_;
};

}  // namespace laconic
