#pragma once
#include "core/ops/attention.h"
#include "core/ops/conv2d.h"
#include "layers/module.h"

// Layers with parameters of their own, but for recurrent ones (layers/recurrent.h).
namespace laconic {

/// A layer that can apply the ReLU which follows it in the same pass over memory. Sequential asks.
class FusesRelu : public Module {
 public:
  /// max(y, 0) in the same pass.
  Tensor forward_relu(const Tensor& x) {
    return call([&] { return run(x, true); });
  }

 private:
  Tensor forward(const Tensor& x) final { return run(x, false); }
  virtual Tensor run(const Tensor& x, bool relu) = 0;
};

/// 2-d convolution (cross-correlation), NCHW.
///   y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] * x[n, c, i*stride + u*dilation - pad, j*stride + v*dilation - pad]
///   x : [N, in, H, W]   ->   y : [N, out, H', W'],
///   H' = (H + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down
///   w : [out, in/groups, kernel, kernel] "weight",  b : [out] "bias"   ~ Uniform(-k, k),
///   k = 1/sqrt(in/groups kernel^2)  (PyTorch's default)
/// Throws ShapeError if x is not 4-d or has another number of channels than `in`, or groups divide neither.
class Conv2d final : public FusesRelu {
 public:
  struct Options {
    int in = 0, out = 0, kernel = 3, stride = 1, pad = 0;
    int output_pad = 0;  ///< of ConvTranspose2d alone
    int dilation = 1, groups = 1;
    bool bias = true;
    Initializer init = nullptr, init_bias = nullptr;  ///< initial values of w and b, instead of the default
  };
  explicit Conv2d(Options o);

 private:
  Tensor run(const Tensor& x, bool relu) override;
  ops::Conv2dOptions o_;
  std::shared_ptr<Parameter> w_, b_;
};

/// 2-d transposed convolution: what a Conv2d from `out` to `in` channels does to gradients, done to values.
///   x : [N, in, H, W]   ->   y : [N, out, H', W'],
///   H' = (H - 1) stride - 2 pad + dilation (kernel - 1) + output_pad + 1
///   w : [in, out/groups, kernel, kernel] "weight",  b : [out] "bias"   ~ Uniform(-k, k),
///   k = 1/sqrt(out/groups kernel^2)  (PyTorch's default)
/// Throws ShapeError as Conv2d does.
class ConvTranspose2d final : public Module {
 public:
  using Options = Conv2d::Options;
  explicit ConvTranspose2d(Options o);

 private:
  Tensor forward(const Tensor& x) override;
  ops::Conv2dOptions o_;
  int output_pad_;
  std::shared_ptr<Parameter> w_, b_;
};

/// y = x w' + b.
///   x : [..., in]   ->   y : [..., out]
///   w : [out, in] "weight",  b : [out] "bias"   ~ Uniform(-k, k),  k = 1/sqrt(in)  (PyTorch's default)
/// A shared weight keeps the name, role and initial values of its first layer; its gradient is ready after both uses.
/// Throws ShapeError if x's last extent is not in (flatten images first), or a shared weight not [out, in].
class Linear final : public FusesRelu {
 public:
  struct Options {
    int in = 0, out = 0;
    bool bias = true;
    bool output = false;                              ///< this layer makes the predictions (ParameterInfo::output)
    std::shared_ptr<Parameter> weight = nullptr;      ///< [out, in] of another layer, to be shared (an Embedding's)
    Initializer init = nullptr, init_bias = nullptr;  ///< initial values of w and b, instead of the default
  };
  explicit Linear(Options o);
  const std::shared_ptr<Parameter>& weight() const { return w_; }

 private:
  Tensor run(const Tensor& x, bool relu) override;
  std::shared_ptr<Parameter> w_, b_;
};

/// A vector per symbol: y[..., :] = w[x[...], :].
///   x : i64, [T, B] or [n]   ->   y : [T, B, dim] or [n, dim]
///   w : [vocabulary, dim] "weight"   ~ Normal(0, 1)  (PyTorch's default)
/// Throws DataError that names the first index outside of [0, vocabulary).
class Embedding final : public Module {
 public:
  struct Options {
    int vocabulary = 0, dim = 0;
    Initializer init = nullptr;  ///< initial values of w, instead of the default
  };
  explicit Embedding(Options o);
  const std::shared_ptr<Parameter>& weight() const { return w_; }  ///< the weight that a Linear may share

 private:
  Tensor forward(const Tensor& x) override;
  std::shared_ptr<Parameter> w_;
};

struct VectorNormOptions {
  int dim = 0;
  float epsilon = 1e-5f;
};

/// Layer normalisation: each vector of the last dimension has mean 0 and variance 1, then a scale and an offset.
///   y = weight (x - mean) / sqrt(var + epsilon) + bias,   mean and (biased) var over the last dimension
///   x : [..., dim]   ->   y : [..., dim]
///   weight : [dim] 1,  bias : [dim] 0
///   source   Ba et al. 2016
/// Throws ShapeError if x's last extent is not dim.
class LayerNorm final : public Configured<VectorNormOptions> {
 public:
  explicit LayerNorm(Options o);

 private:
  Tensor forward(const Tensor& x) override;
  std::shared_ptr<Parameter> gamma_, beta_;
};

/// Normalisation by the root of the mean square: as LayerNorm, but no mean is taken out, and there is no offset.
///   y = weight x / sqrt(mean(x^2) + epsilon),   the mean over the last dimension
///   x : [..., dim]   ->   y : [..., dim]
///   weight : [dim] 1
///   source   Zhang & Sennrich 2019
/// Throws ShapeError if x's last extent is not dim.
class RMSNorm final : public Configured<VectorNormOptions> {
 public:
  explicit RMSNorm(Options o);

 private:
  Tensor forward(const Tensor& x) override;
  std::shared_ptr<Parameter> gamma_;
};

/// Batch normalisation, over [N, C] (BatchNorm1d) or [N, C, H, W] (BatchNorm2d).
///   y = weight (x - mean) / sqrt(var + epsilon) + bias,   per channel
///   Training: mean and (biased) var of this batch, and running <- (1 - momentum) running + momentum batch (unbiased
///   var). Evaluation: the running statistics.
///   weight : [C] 1,  bias : [C] 0;  buffers running_mean [C] 0, running_var [C] 1, num_batches_tracked int64 [] 0
///   source   Ioffe & Szegedy 2015; PyTorch's semantics
/// Throws ShapeError if x has another rank or number of channels, or if training sees one value per channel.
class BatchNorm : public FusesRelu {
 public:
  struct Options {
    int channels = 0;
    float momentum = 0.1f, epsilon = 1e-5f;
  };
  /// max(y + residual, 0) in the same pass: the end of a residual block.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual) {
    return call([&] { return normalize(x, true, residual); });
  }

 protected:
  BatchNorm(Options o, int rank);

 private:
  Tensor run(const Tensor& x, bool relu) override { return normalize(x, relu, {}); }
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual);
  Options o_;
  int rank_;
  std::shared_ptr<Parameter> gamma_, beta_;
  const Tensor &running_mean_, &running_var_, &batches_;
};

class BatchNorm1d final : public BatchNorm {
 public:
  explicit BatchNorm1d(Options o) : BatchNorm(o, 2) {}
};

class BatchNorm2d final : public BatchNorm {
 public:
  explicit BatchNorm2d(Options o) : BatchNorm(o, 4) {}
};

/// Causal self-attention with several heads: each position looks at itself and at those in front of it.
///   y = c_proj(causal_attention(c_attn(x)))      formulas at ops::causal_attention
///   x : [B, T, dim]   ->   y : [B, T, dim]
///   children   c_attn, Linear(dim, 3 dim): q, k and v of all heads;  c_proj, Linear(dim, dim)
///   dropout    of the attention's probabilities, in training: keyed as Dropout's masks are
///   source     Vaswani et al. 2017; names and order as in GPT-2 (Radford et al. 2019), weights as Linear's, [out, in]
/// Throws ShapeError if heads do not divide dim, or x has another shape.
class CausalSelfAttention final : public Module {
 public:
  struct Options {
    int dim = 0, heads = 1;
    float dropout = 0;
    bool bias = true;  ///< true: both layers have one
    /// They fill the weights and both biases, instead of Linear's default.
    Initializer init = nullptr, init_projection = nullptr, init_bias = nullptr;
  };
  explicit CausalSelfAttention(Options o);

 private:
  Tensor forward(const Tensor& x) override;
  Options o_;
  Child<Linear> c_attn_, c_proj_;
};

}  // namespace laconic
