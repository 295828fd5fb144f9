#include "layers/batch_norm.h"

#include "core/ops/batch_norm.h"
#include "core/ops/increment.h"
#include "layers/init.h"

namespace laconic {

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
  if (training() && !recomputing() && x.device() != kGhost) ops::increment(batches_);
  return ops::batch_norm(x, gamma_->fresh(), beta_->fresh(), running_mean_, running_var_,
                         {.training = training(), .momentum = o_.momentum, .epsilon = o_.epsilon, .relu = relu},
                         residual);
}

Tensor BatchNorm::forward(const Tensor& x) { return normalize(x, false); }

Tensor BatchNorm::forward_relu(const Tensor& x) {
  return call([&] { return normalize(x, true); });
}

Tensor BatchNorm::forward_add_relu(const Tensor& x, const Tensor& residual) {
  return call([&] { return normalize(x, true, residual); });
}

}  // namespace laconic
