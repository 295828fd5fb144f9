#include "core/ops/normalize.h"

#include <functional>
#include <initializer_list>

#include "core/kernels/images.h"
#include "core/kernels/rows.h"
#include "core/ops/common.h"

namespace laconic::inline ops {
namespace {

/// beta undefined: by the root of the mean square alone.
Tensor normalize(const char* what, const Tensor& x_in, const Tensor& gamma_in, const Tensor& beta_in, float epsilon) {
  require<ShapeError>(
      gamma_in.defined() && gamma_in.rank() == 1 && (!beta_in.defined() || beta_in.shape() == gamma_in.shape()), what,
      ": gamma and beta are no vectors of one length.");
  const Tensor gamma = floats(what, gamma_in), beta = beta_in.defined() ? floats(what, beta_in) : beta_in;
  const std::int64_t dim = gamma.dim(0);
  require<ShapeError>(x_in.rank() >= 1 && x_in.dim(-1) == dim, what, ": x is ", x_in.shape(), ", not [..., ", dim,
                      "].");
  require_one_device(what, {{"x", x_in}, {"gamma", gamma}, {"beta", beta}});
  const Tensor x = raw::to_layout(floats(what, x_in), Layout::plain), y = Tensor::like(x);
  const std::int64_t rows = x.elements() / std::max<std::int64_t>(dim, 1);
  const Tensor stats = Tensor::empty({2, rows}, DType::f32, x.device());
  LACONIC_KERNEL(x.device(), normalize_rows(y.data<float>(), stats.data<float>(), x.data<float>(), gamma.data<float>(),
                                            beta.defined() ? beta.data<float>() : nullptr, rows, dim, epsilon));
  return record(
      what, y, {x_in, gamma_in, beta_in},
      [x, gamma, stats, centred = beta.defined(), rows, dim](const Tensor& dy_in, Grads& grads) {
        NormalizeGradients to{};
        const auto aim = [&](int i, float*& memory, bool& add) {
          if (!grads.wants(i)) return;
          const Grads::Target target = grads.into(i, {dim}, x.device());
          memory = target.tensor.data<float>(), add = target.add;
        };
        aim(1, to.dgamma, to.add_to_gamma);
        aim(2, to.dbeta, to.add_to_beta);
        const Tensor dx = elementwise_gradient(dy_in, x, [&](const Tensor& memory, const Tensor& dy) {
          to.dx = memory.data<float>();
          LACONIC_KERNEL(x.device(), normalize_rows_backward(to, dy.data<float>(), x.data<float>(), stats.data<float>(),
                                                             gamma.data<float>(), rows, dim, centred));
        });
        if (grads.wants(0)) grads.put(0, dx);
      });
}

void check_batch_norm(const Tensor& x, const Tensor& gamma,
                      std::initializer_list<std::reference_wrapper<const Tensor>> others, const Tensor& residual) {
  require<ShapeError>(x.rank() == 2 || x.rank() == 4, "batch_norm: x is ", x.shape(), ", not [N, C] or [N, C, H, W].");
  require<ShapeError>(x.dim(1) >= 1, "batch_norm: x ", x.shape(), " has no channels.");
  require<ShapeError>(gamma.shape() == Shape{x.dim(1)}, "batch_norm: x is ", x.shape(), " but gamma is ", gamma.shape(),
                      ", not ", Shape{x.dim(1)}, ".");
  for (const Tensor& other : others)
    require<ShapeError>(other.shape() == gamma.shape(), "batch_norm: gamma is ", gamma.shape(),
                        " but beta or a running statistic is ", other.shape(), ".");
  require<ShapeError>(!residual.defined() || residual.shape() == x.shape(), "batch_norm: x is ", x.shape(),
                      " but what is added is ", residual.defined() ? residual.shape() : Shape{}, ".");
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon) {
  const bool centred = beta.defined() || !gamma.defined();
  return normalize("layer_norm", x, gamma, centred ? beta : Tensor::zeros(gamma.shape(), DType::f32, gamma.device()),
                   epsilon);
}
Tensor rms_norm(const Tensor& x, const Tensor& gamma, float epsilon) {
  return normalize("rms_norm", x, gamma, {}, epsilon);
}

Tensor batch_norm(const Tensor& x_in, const Tensor& gamma_in, const Tensor& beta_in, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& o, const Tensor& residual) {
  const Tensor gamma = floats("batch_norm", gamma_in), beta = floats("batch_norm", beta_in);
  check_batch_norm(x_in, gamma, {beta, running_mean, running_var}, residual);
  require_one_device("batch_norm", {{"x", x_in},
                                    {"gamma", gamma},
                                    {"beta", beta},
                                    {"running_mean", running_mean},
                                    {"running_var", running_var},
                                    {"residual", residual}});
  const std::int64_t channels = gamma.dim(0);
  const Tensor x = channelwise(x_in);
  const Tensor added = residual.defined() ? raw::to_layout(raw::cast(residual, x.dtype()), x.layout()) : Tensor{};
  const Tensor y = Tensor::like(x);
  const std::int64_t values = x.elements() / std::max<std::int64_t>(1, channels);  // per channel
  require<ShapeError>(!o.training || values != 1, "batch_norm: training on ", x.shape(),
                      ", one value per channel, has no variance. Use a larger batch, or eval().");
  const ChannelView view = channel_view(x);
  // [0] mean, [1] 1 / sqrt(variance + epsilon), [2] and [3] scale and offset of the forward pass. Once: the running
  // statistics must not change twice, and the batch's are computed with their help.
  const Tensor stats = once([&] {
    const Tensor made = Tensor::empty({4, channels}, DType::f32, x.device());
    const BatchNormParameters p{
        gamma.data<float>(), beta.data<float>(), running_mean.data<float>(), running_var.data<float>(), o.training,
        o.momentum,          o.epsilon};
    LACONIC_REAL_KERNEL(x, batch_norm_statistics(made.data<float>(), x.data<Real>(), view, p));
    return made;
  });
  const float *scale = stats.data<float>() + 2 * channels, *offset = scale + channels;
  LACONIC_REAL_KERNEL(x, batch_norm_apply(y.data<Real>(), x.data<Real>(), view, scale, offset,
                                          added.defined() ? added.data<Real>() : nullptr, o.relu));

  return record_pair(
      "batch_norm", y, {x_in, gamma_in, beta_in, residual},
      [x, gamma, stats, y_relu = o.relu ? y : Tensor{}, training = o.training, channels, view](
          const Tensor& dy_in, const Tensor& dy2_in, Grads& grads) {
        const Tensor dy2 = dy2_in.defined() ? raw::to_layout(dy2_in, x.layout()) : Tensor{};
        const bool wants_residual = grads.wants(3);
        const Tensor coefficients = Tensor::empty({3, channels}, DType::f32, x.device());
        BatchNormBackward b{stats.data<float>(), gamma.data<float>(), training, nullptr, nullptr, false, false};
        const auto aim = [&](int i, float*& to, bool& add) {
          if (!grads.wants(i)) return;
          const Grads::Target target = grads.into(i, {channels}, x.device());
          to = target.tensor.data<float>(), add = target.add;
        };
        aim(1, b.dgamma, b.add_to_gamma);
        aim(2, b.dbeta, b.add_to_beta);
        const Tensor g = elementwise_gradient(dy_in, x, [&](const Tensor& g0, const Tensor& dy) {
          LACONIC_REAL_KERNEL(
              x, batch_norm_backward_sums(g0.data<Real>(), coefficients.data<float>(), dy.data<Real>(),
                                          dy2.defined() ? dy2.data<Real>() : nullptr,
                                          y_relu.defined() ? y_relu.data<Real>() : nullptr, x.data<Real>(), view, b));
        });
        if (grads.wants(0)) {
          const Tensor dx = wants_residual ? Tensor::like(x) : g;
          LACONIC_REAL_KERNEL(x, batch_norm_backward_data(dx.data<Real>(), g.data<Real>(), x.data<Real>(), view,
                                                          coefficients.data<float>()));
          grads.put(0, dx);
        }
        if (wants_residual) grads.put(3, g);
      });
}

Tensor local_response_norm(const Tensor& x0, const LocalResponseNormOptions& o) {
  require<ShapeError>(o.size >= 1, "local_response_norm: size ", o.size, " must be at least 1.");
  require<ShapeError>(x0.rank() == 2 || x0.rank() == 4, "local_response_norm: x is ", x0.shape(),
                      ", not [N, C] or [N, C, H, W].");
  const LrnShape s{o.size, o.alpha, o.beta, o.k};
  const Tensor x = channelwise(floats("local_response_norm", x0));
  const Tensor y = Tensor::like(x);
  LACONIC_KERNEL(x.device(), lrn_forward(y.data<float>(), x.data<float>(), channel_view(x), s));
  return record("local_response_norm", y, {x0}, [x, s](const Tensor& dy0, Grads& grads) {
    const Tensor dy = raw::to_layout(dy0, x.layout());
    Tensor dx = Tensor::like(x);
    LACONIC_KERNEL(x.device(), lrn_backward(dx.data<float>(), dy.data<float>(), x.data<float>(), channel_view(x), s));
    grads.put(0, std::move(dx));
  });
}

}  // namespace laconic::inline ops
