#include "core/ops/batch_norm.h"

#include <cmath>

#include "core/cpu/batch_norm.h"
#include "core/dispatch.h"
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

void fill_stats(const Tensor& stats, const Tensor& x, const cpu::ChannelView& view, const Tensor& gamma,
                const Tensor& beta, const Tensor& running_mean, const Tensor& running_var, const BatchNormOptions& o) {
  const std::int64_t channels = gamma.dim(0), values = x.elements() / std::max<std::int64_t>(1, channels);
  float *mean = stats.data<float>(), *inverse = mean + channels, *scale = inverse + channels,
        *offset = scale + channels;
  float *r_mean = running_mean.data<float>(), *r_var = running_var.data<float>();
  if (o.training && values > 0) {
    cpu::batch_norm_statistics(mean, inverse, x.data<float>(), view, r_mean);
    const float unbias = static_cast<float>(static_cast<double>(values) / static_cast<double>(values - 1));
    for (std::int64_t c = 0; c < channels; ++c) {
      r_mean[c] += o.momentum * (mean[c] - r_mean[c]);
      r_var[c] += o.momentum * (inverse[c] * unbias - r_var[c]);
    }
  } else {
    std::copy_n(r_mean, channels, mean);
    std::copy_n(r_var, channels, inverse);
  }
  const float *g = gamma.data<float>(), *b = beta.data<float>();
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse[c] = 1.0f / std::sqrt(inverse[c] + o.epsilon);
    scale[c] = g[c] * inverse[c];
    offset[c] = b[c] - mean[c] * scale[c];
  }
}

}  // namespace

Tensor batch_norm(const Tensor& x_in, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& o, const Tensor& residual) {
  check(x_in, gamma, residual);
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
    on_device(x.device(), [&] { fill_stats(made, x, view, gamma, beta, running_mean, running_var, o); });
    return made;
  });
  on_device(x.device(), [&] {
    const float *scale = stats.data<float>() + 2 * channels, *offset = scale + channels;
    cpu::batch_norm_apply(y.data<float>(), x.data<float>(), view, scale, offset,
                          added.defined() ? added.data<float>() : nullptr, o.relu);
  });

  return record_pair(
      "batch_norm", y, {x_in, gamma, beta, residual},
      [x, gamma = gamma.value(), stats, y_relu = o.relu ? y : Tensor{}, training = o.training, channels, values, view](
          const Tensor& dy_in, const Tensor& dy2_in, Grads& grads) {
        const bool mine = dy_in.sole_owner();
        const Tensor dy = raw::to_layout(dy_in, x.layout());
        const Tensor dy2 = dy2_in.defined() ? raw::to_layout(dy2_in, x.layout()) : Tensor{};
        const auto fresh = [&] { return Tensor::empty(x.shape(), DType::f32, x.device(), x.layout()); };
        const Tensor g = mine || !dy.same_memory(dy_in) ? dy : fresh();
        const bool wants_residual = grads.wants(3);
        const Tensor dx = !grads.wants(0) ? Tensor{} : wants_residual ? fresh() : g;
        const Tensor sums = Tensor::empty({2, channels}, DType::f32, x.device());
        on_device(x.device(), [&] {
          float *sum_g = sums.data<float>(), *sum_gx = sum_g + channels;
          const float *mean = stats.data<float>(), *inverse = mean + channels, *gam = gamma.data<float>();
          cpu::batch_norm_backward_sums(g.data<float>(), sum_g, sum_gx, dy.data<float>(),
                                        dy2.defined() ? dy2.data<float>() : nullptr,
                                        y_relu.defined() ? y_relu.data<float>() : nullptr, x.data<float>(), view, mean);
          const auto give = [&](int input, auto&& value) {
            if (!grads.wants(input)) return;
            const Grads::Target t = grads.into(input, {channels}, x.device());
            float* p = t.tensor.data<float>();
            for (std::int64_t c = 0; c < channels; ++c) p[c] = (t.add ? p[c] : 0.0f) + value(c);
          };
          give(1, [&](std::int64_t c) { return sum_gx[c] * inverse[c]; });
          give(2, [&](std::int64_t c) { return sum_g[c]; });
          if (dx.defined()) {
            // dx = gamma/sigma (g - mean(g) - xhat mean(g xhat)), with xhat = (x - mean)/sigma,
            // as a g + b x + d per channel
            std::vector<float> a(channels), b(channels), d(channels);
            for (std::int64_t c = 0; c < channels; ++c) {
              a[c] = gam[c] * inverse[c];
              if (!training) continue;
              b[c] = -a[c] * inverse[c] * inverse[c] * sum_gx[c] / static_cast<float>(values);
              d[c] = -a[c] * sum_g[c] / static_cast<float>(values) - b[c] * mean[c];
            }
            cpu::batch_norm_backward_data(dx.data<float>(), g.data<float>(), x.data<float>(), view, a.data(), b.data(),
                                          d.data());
          }
        });
        if (dx.defined()) grads.put(0, dx);
        if (wants_residual) grads.put(3, g);
      });
}

}  // namespace laconic::ops
