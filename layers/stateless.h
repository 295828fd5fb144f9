#pragma once
#include "core/ops/dropout.h"
#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/normalize.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "layers/module.h"

// Layers without parameters: each applies one operation.
namespace laconic {

template <Tensor (*operation)(const Tensor&)>
class Applied : public Module {
  Tensor forward(const Tensor& x) final { return operation(x); }
};
/// y = max(x, 0). In a Sequential, a layer in front that can (FusesRelu) does it in its own pass.
class ReLU final : public Applied<ops::relu> {};
class Tanh final : public Applied<ops::tanh> {};
class Sigmoid final : public Applied<ops::sigmoid> {};  ///< y = 1 / (1 + exp(-x))
class SiLU final : public Applied<ops::silu> {};        ///< y = x / (1 + exp(-x)).   source: Elfwing et al. 2018
class Flatten final : public Applied<ops::flatten> {};  ///< [N, C, H, W] -> [N, C H W], in PyTorch's order of weights

/// y = x: the shortcut of a residual Add.
class Identity final : public Module {
  Tensor forward(const Tensor& x) override { return x; }
};

struct GeluOptions {
  bool tanh = false;  ///< whether it is the approximation that GPT-2 was trained with (ops::gelu_tanh)
};
/// y = x Phi(x), Phi the normal distribution function.   source: Hendrycks & Gimpel 2016
class GELU final : public Configured<GeluOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return o_.tanh ? ops::gelu_tanh(x) : ops::gelu(x); }
};

struct LeakyReluOptions {
  float slope = 0.01f;
};
/// y = x above 0, else slope x.   source: Maas et al. 2013
class LeakyReLU final : public Configured<LeakyReluOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::leaky_relu(x, o_.slope); }
};

struct SoftmaxOptions {
  int dim = -1;
};
/// y = e^x / sum e^x along a dimension.
class Softmax final : public Configured<SoftmaxOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::softmax(x, o_.dim); }
};

struct UpsampleOptions {
  int scale = 2;
  bool bilinear = false;
};
/// Larger images: every pixel `scale` times in both directions, or bilinear between their centres (PyTorch's
/// align_corners=False).   x : [N, C, H, W]  ->  y : [N, C, scale H, scale W]
class Upsample final : public Configured<UpsampleOptions> {
 public:
  explicit Upsample(Options o) : Configured(o) {
    require<ShapeError>(o.scale >= 1, "Upsample: scale = ", o.scale, " must be at least 1.");
  }

 private:
  Tensor forward(const Tensor& x) override { return ops::upsample2d(x, o_.scale, o_.bilinear); }
};

struct DropoutOptions {
  float p = 0.5f;
  bool time_first = false;  ///< x is [T, B, ...]: samples are along B (language models)
};
/// Training: y = x / (1 - p) with probability 1 - p, else 0. Evaluation, or a context with dropout = false: y = x.
/// Masks come from the ForwardContext (seed, step, first sample) and this layer's position in the model: the same for
/// any number of workers and threads.   source: Srivastava et al. 2014
class Dropout final : public Configured<DropoutOptions> {
 public:
  explicit Dropout(Options o) : Configured(o) {
    require<ShapeError>(o.p >= 0 && o.p < 1, "Dropout: p = ", o.p, " is not in [0, 1).");
  }

 private:
  Tensor forward(const Tensor& x) override {
    const ForwardContext& c = context();
    if (!training() || !c.dropout) return x;
    const auto layer = static_cast<std::uint32_t>(position());
    return ops::dropout(x, o_.p, {c.seed, layer, c.step, c.first_sample, o_.time_first});
  }
};

/// y[c] = x[c] / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta: core/ops/normalize.h
class LocalResponseNorm final : public Configured<ops::LocalResponseNormOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::local_response_norm(x, o_); }
};

/// Largest value of each kernel x kernel window.   x : [N, C, H, W]  ->  y : [N, C, H', W'],
///   H' = (H + 2 pad - kernel) / stride + 1, rounded down (up with ceil_mode).   stride 0: the same as kernel
/// Throws ShapeError if x is not 4-d or smaller than a window, or pad > kernel / 2.
class MaxPool2d final : public Configured<ops::PoolOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::max_pool2d(x, o_); }
};

/// Mean of each window; shapes as MaxPool2d. With count_include_pad the padding's zeros count as values.
class AvgPool2d final : public Configured<ops::PoolOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::avg_pool2d(x, o_); }
};

struct AdaptiveAvgPoolOptions {
  int out_h = 1, out_w = 1;
};
/// Mean over windows that make the output [N, C, out_h, out_w] whatever the input; 1 x 1 is the global average.
class AdaptiveAvgPool2d final : public Configured<AdaptiveAvgPoolOptions> {
  using Configured::Configured;
  Tensor forward(const Tensor& x) override { return ops::adaptive_avg_pool2d(x, o_.out_h, o_.out_w); }
};

}  // namespace laconic
