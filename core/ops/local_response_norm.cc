#include "core/ops/local_response_norm.h"

#include "core/cpu/lrn.h"
#include "core/cuda/lrn.h"
#include "core/dispatch.h"
#include "core/ops/images.h"

namespace laconic::ops {

Tensor local_response_norm(const Tensor& x0, const LocalResponseNormOptions& o) {
  require<ShapeError>(o.size >= 1, "local_response_norm: size ", o.size, " must be at least 1.");
  require<ShapeError>(x0.rank() == 2 || x0.rank() == 4, "local_response_norm: x is ", x0.shape(),
                      ", not [N, C] or [N, C, H, W].");
  const cpu::LrnShape s{o.size, o.alpha, o.beta, o.k};
  const Tensor x = channelwise(x0);
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  LACONIC_KERNEL(x.device(), lrn_forward(y.data<float>(), x.data<float>(), cpu::channel_view(x), s));
  return record("local_response_norm", y, {x0}, [x, s](const Tensor& dy0, Grads& grads) {
    const Tensor dy = raw::to_layout(dy0, x.layout());
    Tensor dx = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
    LACONIC_KERNEL(x.device(),
                   lrn_backward(dx.data<float>(), dy.data<float>(), x.data<float>(), cpu::channel_view(x), s));
    grads.put(0, std::move(dx));
  });
}

}  // namespace laconic::ops
