#include "core/ops/local_response_norm.h"

#include "core/kernels/images.h"
#include "core/ops/common.h"

namespace laconic::inline ops {

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
