#include "layers/weighted.h"

#include "core/ops/batch_norm.h"
#include "core/ops/embedding.h"
#include "core/ops/linear.h"
#include "core/raw.h"

namespace laconic {

Conv2d::Conv2d(Options o) : o_{.stride = o.stride, .pad = o.pad, .dilation = o.dilation, .groups = o.groups} {
  require<ShapeError>(o.in >= 1 && o.out >= 1 && o.kernel >= 1 && o.stride >= 1 && o.pad >= 0 && o.dilation >= 1 &&
                          o.groups >= 1 && o.in % o.groups == 0 && o.out % o.groups == 0,
                      "Conv2d: in = ", o.in, ", out = ", o.out, ", kernel = ", o.kernel, ", stride = ", o.stride,
                      ", pad = ", o.pad, ", dilation = ", o.dilation, ", groups = ", o.groups,
                      ": all must be at least 1 (pad 0), and groups must divide in and out.");
  const std::int64_t fan_in = std::int64_t{o.in} / o.groups * o.kernel * o.kernel;
  w_ = parameter("weight", {o.out, o.in / o.groups, o.kernel, o.kernel}, Role::conv,
                 o.init ? o.init : init::uniform_fan_in(fan_in));
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : init::uniform_fan_in(fan_in));
}

Tensor Conv2d::run(const Tensor& x, bool relu) {
  ops::Conv2dOptions o = o_;
  o.relu = relu;
  return ops::conv2d(x, w_->fresh(), b_ ? b_->fresh() : Tensor(), o);
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

Tensor Linear::run(const Tensor& x, bool relu) { return ops::linear(x, *w_, b_ ? b_->fresh() : Tensor(), relu); }

Embedding::Embedding(Options o) {
  require<ShapeError>(o.vocabulary >= 1 && o.dim >= 1, "Embedding: vocabulary = ", o.vocabulary, ", dim = ", o.dim,
                      " must be at least 1.");
  w_ = parameter("weight", {o.vocabulary, o.dim}, Role::embedding, o.init ? o.init : init::normal(1));
}

Tensor Embedding::forward(const Tensor& x) { return ops::embedding(x, w_->fresh()); }

BatchNorm::BatchNorm(Options o, int rank)
    : o_(o),
      rank_(rank),
      gamma_(parameter("weight", {o.channels}, Role::norm, init::constant(1))),
      beta_(parameter("bias", {o.channels}, Role::norm, init::constant(0))),
      running_mean_(buffer("running_mean", Tensor::zeros({o.channels}))),
      running_var_(buffer("running_var", Tensor::full({o.channels}, 1))),
      batches_(buffer("num_batches_tracked", Tensor::zeros({}, DType::i64))) {}

Tensor BatchNorm::normalize(const Tensor& x, bool relu, const Tensor& residual) {
  require<ShapeError>(x.rank() == rank_ && x.dim(1) == o_.channels, "BatchNorm", rank_ / 2, "d ", path(), ": x is ",
                      x.shape(), ", not [N, ", o_.channels, rank_ == 4 ? ", H, W]." : "].");
  if (training() && !recomputing() && x.device() != kGhost) raw::increment(batches_);
  return ops::batch_norm(x, gamma_->fresh(), beta_->fresh(), running_mean_, running_var_,
                         {.training = training(), .momentum = o_.momentum, .epsilon = o_.epsilon, .relu = relu},
                         residual);
}

}  // namespace laconic
