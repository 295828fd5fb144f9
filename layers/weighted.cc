#include "layers/weighted.h"

#include "core/ops/functions.h"
#include "core/ops/linear.h"
#include "core/ops/normalize.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "core/raw.h"

namespace laconic {

static void require_conv(const char* what, const Conv2d::Options& o, bool may_pad_output) {
  require<ShapeError>(
      o.in >= 1 && o.out >= 1 && o.kernel >= 1 && o.stride >= 1 && o.pad >= 0 && o.dilation >= 1 && o.groups >= 1 &&
          o.in % o.groups == 0 && o.out % o.groups == 0 && o.output_pad >= 0 &&
          (o.output_pad == 0 || (may_pad_output && (o.output_pad < o.stride || o.output_pad < o.dilation))),
      what, ": in = ", o.in, ", out = ", o.out, ", kernel = ", o.kernel, ", stride = ", o.stride, ", pad = ", o.pad,
      ", output_pad = ", o.output_pad, ", dilation = ", o.dilation, ", groups = ", o.groups,
      ": all must be at least 1 (pads 0), groups must divide in and out, and ",
      may_pad_output ? "output_pad be less than stride or dilation." : "output_pad be 0.");
}

Conv2d::Conv2d(Options o) : o_{.stride = o.stride, .pad = o.pad, .dilation = o.dilation, .groups = o.groups} {
  require_conv("Conv2d", o, false);
  const Initializer uniform = init::uniform_fan_in(std::int64_t{o.in} / o.groups * o.kernel * o.kernel);
  w_ = parameter("weight", {o.out, o.in / o.groups, o.kernel, o.kernel}, Role::conv, o.init ? o.init : uniform);
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : uniform);
}

Tensor Conv2d::run(const Tensor& x, bool relu) {
  ops::Conv2dOptions o = o_;
  o.relu = relu;
  return ops::conv2d(x, w_->fresh(), b_ ? b_->fresh() : Tensor(), o);
}

ConvTranspose2d::ConvTranspose2d(Options o)
    : o_{.stride = o.stride, .pad = o.pad, .dilation = o.dilation, .groups = o.groups}, output_pad_(o.output_pad) {
  require_conv("ConvTranspose2d", o, true);
  const Initializer uniform = init::uniform_fan_in(std::int64_t{o.out} / o.groups * o.kernel * o.kernel);
  w_ = parameter("weight", {o.in, o.out / o.groups, o.kernel, o.kernel}, Role::conv, o.init ? o.init : uniform);
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : uniform);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  const Tensor y = ops::conv_transpose2d(x, w_->fresh(), o_, output_pad_);
  return b_ ? y + ops::reshape(b_->fresh(), {y.dim(1), 1, 1}) : y;
}

Linear::Linear(Options o) {
  require<ShapeError>(o.in >= 1 && o.out >= 1, "Linear: in = ", o.in, ", out = ", o.out, " must be at least 1.");
  if (o.weight) {
    require<ShapeError>(o.weight->info.shape == Shape{o.out, o.in}, "Linear: the shared weight is ",
                        o.weight->info.shape, ", not ", Shape{o.out, o.in}, ".");
    share("weight", w_ = o.weight);
  } else {
    w_ = parameter("weight", {o.out, o.in}, Role::linear, o.init ? o.init : init::uniform_fan_in(o.in));
  }
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : init::uniform_fan_in(o.in));
  w_->info.output |= o.output;
  if (b_) b_->info.output = o.output;
}

Tensor Linear::run(const Tensor& x, bool relu) {
  const std::int64_t in = w_->info.shape[1], out = w_->info.shape[0];
  const bool rows = x.rank() == 2 || x.rank() == 0 || x.dim(-1) != in;  // the last is refused there
  const Tensor y =
      ops::linear(rows ? x : ops::reshape(x, {x.elements() / in, in}), *w_, b_ ? b_->fresh() : Tensor(), relu);
  return rows ? y : ops::reshape(y, x.shape().with(x.rank() - 1, out));
}

Embedding::Embedding(Options o) {
  require<ShapeError>(o.vocabulary >= 1 && o.dim >= 1, "Embedding: vocabulary = ", o.vocabulary, ", dim = ", o.dim,
                      " must be at least 1.");
  w_ = parameter("weight", {o.vocabulary, o.dim}, Role::embedding, o.init ? o.init : init::normal(1));
}

Tensor Embedding::forward(const Tensor& x) { return ops::embedding(x, w_->fresh()); }

LayerNorm::LayerNorm(Options o)
    : Configured(o),
      gamma_(parameter("weight", {o.dim}, Role::norm, init::constant(1))),
      beta_(parameter("bias", {o.dim}, Role::norm, init::constant(0))) {}

Tensor LayerNorm::forward(const Tensor& x) {
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) == o_.dim, "LayerNorm: x is ", x.shape(), ", not [..., ", o_.dim,
                      "].");
  return ops::layer_norm(x, gamma_->fresh(), beta_->fresh(), o_.epsilon);
}

RMSNorm::RMSNorm(Options o) : Configured(o), gamma_(parameter("weight", {o.dim}, Role::norm, init::constant(1))) {}

Tensor RMSNorm::forward(const Tensor& x) {
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) == o_.dim, "RMSNorm: x is ", x.shape(), ", not [..., ", o_.dim, "].");
  return ops::rms_norm(x, gamma_->fresh(), o_.epsilon);
}

BatchNorm::BatchNorm(Options o, int rank)
    : o_(o),
      rank_(rank),
      gamma_(parameter("weight", {o.channels}, Role::norm, init::constant(1))),
      beta_(parameter("bias", {o.channels}, Role::norm, init::constant(0))),
      running_mean_(buffer("running_mean", Tensor::zeros({o.channels}))),
      running_var_(buffer("running_var", Tensor::full({o.channels}, 1))),
      batches_(buffer("num_batches_tracked", Tensor::zeros({}, DType::i64))) {}

Tensor BatchNorm::normalize(const Tensor& x, bool relu, const Tensor& residual) {
  require<ShapeError>(x.rank() == rank_ && x.dim(1) == o_.channels, "BatchNorm", rank_ / 2, "d: x is ", x.shape(),
                      ", not [N, ", o_.channels, rank_ == 4 ? ", H, W]." : "].");
  if (training() && !recomputing() && x.device() != kGhost) raw::increment(batches_);
  return ops::batch_norm(x, gamma_->fresh(), beta_->fresh(), running_mean_, running_var_,
                         {.training = training(), .momentum = o_.momentum, .epsilon = o_.epsilon, .relu = relu},
                         residual);
}

CausalSelfAttention::CausalSelfAttention(Options o) : o_(o) {
  require<ShapeError>(o.dim >= 1 && o.heads >= 1 && o.dim % o.heads == 0 && o.dropout >= 0 && o.dropout < 1,
                      "CausalSelfAttention: dim = ", o.dim, ", heads = ", o.heads, ", dropout = ", o.dropout,
                      ": heads must divide dim, and dropout be in [0, 1).");
  c_attn_ = child<Linear>("c_attn",
                          {.in = o.dim, .out = 3 * o.dim, .bias = o.bias, .init = o.init, .init_bias = o.init_bias});
  c_proj_ = child<Linear>(
      "c_proj", {.in = o.dim, .out = o.dim, .bias = o.bias, .init = o.init_projection, .init_bias = o.init_bias});
}

Tensor CausalSelfAttention::forward(const Tensor& x) {
  require<ShapeError>(x.rank() == 3 && x.dim(2) == o_.dim, "CausalSelfAttention: x is ", x.shape(), ", not [B, T, ",
                      o_.dim, "].");
  const ForwardContext& c = context();
  const float p = training() && c.dropout ? o_.dropout : 0.0f;
  return c_proj_(ops::causal_attention(c_attn_(x), o_.heads, p,
                                       {.seed = c.seed,
                                        .layer = static_cast<std::uint32_t>(position()),
                                        .step = c.step,
                                        .first_sample = c.first_sample}));
}

}  // namespace laconic
