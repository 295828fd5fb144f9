#include "core/ops/conv2d.h"

#include "core/cpu/conv.h"
#include "core/cpu/elementwise.h"
#include "core/dispatch.h"
#include "core/ops/relu_mask.h"
#include "core/raw.h"

namespace laconic::ops {

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  require<ShapeError>(x.rank() == 4, "conv2d: x is ", x.shape(), ", but a convolution takes images [N, C, H, W].");
  require<ShapeError>(w.rank() == 4 && o.groups >= 1 && w.dim(1) * o.groups == x.dim(1) && w.dim(0) % o.groups == 0,
                      "conv2d: x is ", x.shape(), " but w is ", w.shape(), " with ", o.groups, " groups: x needs ",
                      w.dim(1) * o.groups, " channels.");
  require<ShapeError>(!b.defined() || (b.rank() == 1 && b.dim(0) == w.dim(0)), "conv2d: w is ", w.shape(), " but b is ",
                      b.defined() ? b.shape() : Shape{}, ": b needs ", w.dim(0), " elements.");
  const auto extent = [&](std::int64_t in, std::int64_t kernel) {
    const std::int64_t room = in + 2 * o.pad - o.dilation * (kernel - 1) - 1;
    require<ShapeError>(room >= 0, "conv2d: a ", w.dim(2), "x", w.dim(3), " kernel (dilation ", o.dilation,
                        ") is larger than the image of ", x.shape(), " padded by ", o.pad, ".");
    return room / o.stride + 1;
  };
  const Shape shape{x.dim(0), w.dim(0), extent(x.dim(2), w.dim(2)), extent(x.dim(3), w.dim(3))};
  // An image in plain order is read as it comes, but oneDNN has no fast kernel that writes a gradient in that order.
  cpu::ConvLayouts layouts = cpu::conv_layouts(x, w.dim(0), o.groups);
  if (layouts.input == Layout::plain && wants_gradient({x})) layouts = {Layout::channels_last, Layout::channels_last};
  const Tensor in = raw::to_layout(x.value(), layouts.input);
  const Tensor y = Tensor::empty(shape, DType::f32, x.device(), layouts.output);
  if (y.elements() > 0) on_device(x.device(), [&] { cpu::conv2d_forward(y, in, w, b, o); });

  return record("conv2d", y, {x, w, b},
                [in, w = w.value(), y_relu = o.relu ? y : Tensor{}, layout = y.layout(), bias = b.defined(), o](
                    const Tensor& gradient, Grads& grads) {
                  const Tensor dy = o.relu ? relu_mask(gradient, y_relu) : raw::to_layout(gradient, layout);
                  const bool wants_bias = bias && grads.wants(2);
                  if (grads.wants(1) || wants_bias) {
                    const Grads::Target dw =
                        grads.wants(1) ? grads.into(1, w.shape(), w.device())
                                       : Grads::Target{Tensor::empty(w.shape(), DType::f32, w.device()), false};
                    const Grads::Target db = wants_bias ? grads.into(2, {w.dim(0)}, w.device()) : Grads::Target{};
                    on_device(dy.device(),
                              [&] { cpu::conv2d_backward_weights(dw.tensor, dw.add, db.tensor, db.add, in, dy, o); });
                  }
                  if (grads.wants(0)) {
                    const Tensor dx = Tensor::empty(in.shape(), DType::f32, in.device(), in.layout());
                    on_device(dy.device(), [&] { cpu::conv2d_backward_data(dx, dy, w, o); });
                    grads.put(0, dx);
                  }
                });
}

}  // namespace laconic::ops
