#include "core/ops/batch_norm.h"

#include "core/cpu/batch_norm.h"
#include "core/cuda/batch_norm.h"
#include "core/dispatch.h"
#include "core/ops/one_device.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// Channels-last unless the tensor is blocked: what the kernels can walk.
Tensor walkable(const Tensor& x) {
  return x.rank() == 4 && x.layout() == Layout::plain ? raw::to_layout(x, Layout::channels_last) : x.value();
}

void check(const Tensor& x, const Tensor& gamma, const Tensor& residual) {
  require<ShapeError>(x.rank() == 2 || x.rank() == 4, "batch_norm: x is ", x.shape(), ", not [N, C] or [N, C, H, W].");
  require<ShapeError>(gamma.dim(0) == x.dim(1), "batch_norm: x is ", x.shape(), " but the layer has ", gamma.dim(0),
                      " channels, not ", x.dim(1), ".");
  require<ShapeError>(!residual.defined() || residual.shape() == x.shape(), "batch_norm: x is ", x.shape(),
                      " but what is added is ", residual.defined() ? residual.shape() : Shape{}, ".");
}

}  // namespace

Tensor batch_norm(const Tensor& x_in, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& o, const Tensor& residual) {
  check(x_in, gamma, residual);
  require_one_device("batch_norm", {{"x", x_in},
                                    {"gamma", gamma},
                                    {"beta", beta},
                                    {"running_mean", running_mean},
                                    {"running_var", running_var},
                                    {"residual", residual}});
  const std::int64_t channels = gamma.dim(0);
  const Tensor x = walkable(x_in);
  const Tensor added = residual.defined() ? raw::to_layout(residual, x.layout()) : Tensor{};
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  const std::int64_t values = x.elements() / std::max<std::int64_t>(1, channels);  // per channel
  require<ShapeError>(!o.training || values != 1, "batch_norm: training on ", x.shape(),
                      ", one value per channel, has no variance. Use a larger batch, or eval().");
  const cpu::ChannelView view = cpu::channel_view(x);
  // [0] mean, [1] 1 / sqrt(variance + epsilon), [2] and [3] scale and offset of the forward pass. Once: the running
  // statistics must not change twice, and the batch's are computed with their help.
  const Tensor stats = once([&] {
    const Tensor made = Tensor::empty({4, channels}, DType::f32, x.device());
    const cpu::BatchNormParameters p{
        gamma.data<float>(), beta.data<float>(), running_mean.data<float>(), running_var.data<float>(), o.training,
        o.momentum,          o.epsilon};
    LACONIC_KERNEL(x.device(), batch_norm_statistics(made.data<float>(), x.data<float>(), view, p));
    return made;
  });
  const float *scale = stats.data<float>() + 2 * channels, *offset = scale + channels;
  LACONIC_KERNEL(x.device(), batch_norm_apply(y.data<float>(), x.data<float>(), view, scale, offset,
                                              added.defined() ? added.data<float>() : nullptr, o.relu));

  return record_pair(
      "batch_norm", y, {x_in, gamma, beta, residual},
      [x, gamma = gamma.value(), stats, y_relu = o.relu ? y : Tensor{}, training = o.training, channels, view](
          const Tensor& dy_in, const Tensor& dy2_in, Grads& grads) {
        const bool mine = dy_in.sole_owner();
        const Tensor dy = raw::to_layout(dy_in, x.layout());
        const Tensor dy2 = dy2_in.defined() ? raw::to_layout(dy2_in, x.layout()) : Tensor{};
        const auto fresh = [&] { return Tensor::empty(x.shape(), DType::f32, x.device(), x.layout()); };
        const Tensor g = mine || !dy.same_memory(dy_in) ? dy : fresh();
        const bool wants_residual = grads.wants(3);
        const Tensor dx = !grads.wants(0) ? Tensor{} : wants_residual ? fresh() : g;
        const Tensor coefficients = Tensor::empty({3, channels}, DType::f32, x.device());
        cpu::BatchNormBackward b{stats.data<float>(), gamma.data<float>(), training, nullptr, nullptr, false, false};
        Grads::Target dgamma, dbeta;
        if (grads.wants(1)) {
          dgamma = grads.into(1, {channels}, x.device());
          b.dgamma = dgamma.tensor.data<float>(), b.add_to_gamma = dgamma.add;
        }
        if (grads.wants(2)) {
          dbeta = grads.into(2, {channels}, x.device());
          b.dbeta = dbeta.tensor.data<float>(), b.add_to_beta = dbeta.add;
        }
        LACONIC_KERNEL(x.device(), batch_norm_backward_sums(
                                       g.data<float>(), coefficients.data<float>(), dy.data<float>(),
                                       dy2.defined() ? dy2.data<float>() : nullptr,
                                       y_relu.defined() ? y_relu.data<float>() : nullptr, x.data<float>(), view, b));
        if (dx.defined())
          LACONIC_KERNEL(x.device(), batch_norm_backward_data(dx.data<float>(), g.data<float>(), x.data<float>(), view,
                                                              coefficients.data<float>()));
        if (dx.defined()) grads.put(0, dx);
        if (wants_residual) grads.put(3, g);
      });
}

}  // namespace laconic::ops
