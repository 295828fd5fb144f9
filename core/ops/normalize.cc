#include "core/ops/normalize.h"

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

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon) {
  const bool centred = beta.defined() || !gamma.defined();
  return normalize("layer_norm", x, gamma, centred ? beta : Tensor::zeros(gamma.shape(), DType::f32, gamma.device()),
                   epsilon);
}
Tensor rms_norm(const Tensor& x, const Tensor& gamma, float epsilon) {
  return normalize("rms_norm", x, gamma, {}, epsilon);
}

}  // namespace laconic::inline ops
