#include "core/ops/conv2d.h"

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/ops/common.h"
#include "core/precision.h"

namespace laconic::ops {

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  require<ShapeError>(x.rank() == 4, "conv2d: x is ", x.shape(), ", but a convolution takes images [N, C, H, W].");
  require<ShapeError>(w.rank() == 4 && o.groups >= 1 && w.dim(1) * o.groups == x.dim(1) && w.dim(0) % o.groups == 0,
                      "conv2d: x is ", x.shape(), " but w is ", w.shape(), " with ", o.groups, " groups: x needs ",
                      w.dim(1) * o.groups, " channels.");
  require<ShapeError>(!b.defined() || (b.rank() == 1 && b.dim(0) == w.dim(0)), "conv2d: w is ", w.shape(), " but b is ",
                      b.defined() ? b.shape() : Shape{}, ": b needs ", w.dim(0), " elements.");
  require_one_device("conv2d", {{"x", x}, {"w", w}, {"b", b}});
  const auto extent = [&](std::int64_t in, std::int64_t kernel) {
    const std::int64_t room = in + 2 * o.pad - o.dilation * (kernel - 1) - 1;
    require<ShapeError>(room >= 0, "conv2d: a ", w.dim(2), "x", w.dim(3), " kernel (dilation ", o.dilation,
                        ") is larger than the image of ", x.shape(), " padded by ", o.pad, ".");
    return room / o.stride + 1;
  };
  const Shape shape{x.dim(0), w.dim(0), extent(x.dim(2), w.dim(2)), extent(x.dim(3), w.dim(3))};
  cpu::ConvLayouts layouts{Layout::channels_last, Layout::channels_last};  // CUDA's
  if (x.device().kind != Device::Kind::cuda) {
    // An image in plain order is read as it comes, but oneDNN has no fast kernel that writes a gradient in that order.
    const cpu::ConvLayouts fastest = cpu::conv_layouts(x, w.dim(0), o.groups);
    if (fastest.input != Layout::plain || !wants_gradient({x})) layouts = fastest;
  }
  const Tensor in = raw::rounded(raw::to_layout(x.value(), layouts.input), product_dtype(x.device()));
  const Tensor y = Tensor::empty(shape, DType::f32, x.device(), layouts.output);
  if (y.elements() > 0) LACONIC_KERNEL(x.device(), conv2d_forward(y, in, w, b, o));

  return record(
      "conv2d", y, {x, w, b},
      [in, w = w.value(), y_relu = o.relu ? y : Tensor{}, layout = y.layout(), bias = b.defined(), o](
          const Tensor& gradient, Grads& grads) {
        const Tensor dy = o.relu ? relu_mask(gradient, y_relu) : raw::to_layout(gradient, layout);
        const Tensor factor = raw::rounded(dy, in.dtype());
        const bool wants_bias = bias && grads.wants(2);
        if (grads.wants(1) || wants_bias) {
          const Grads::Target dw = grads.wants(1)
                                       ? grads.into(1, w.shape(), w.device())
                                       : Grads::Target{Tensor::empty(w.shape(), DType::f32, w.device()), false};
          const Grads::Target db = wants_bias ? grads.into(2, {w.dim(0)}, w.device()) : Grads::Target{};
          on_device(
              dy.device(), [&] { cpu::conv2d_backward_weights(dw.tensor, dw.add, db.tensor, db.add, in, dy, o); },
              [&] {
                cuda::conv2d_backward_weights(dw.tensor, dw.add, in, factor, o);
                if (wants_bias)
                  cuda::sum_rows(db.tensor.data<float>(), dy.data<float>(), dy.elements() / w.dim(0), w.dim(0), db.add);
              });
        }
        if (grads.wants(0)) {
          const Tensor dx = Tensor::empty(in.shape(), DType::f32, in.device(), in.layout());
          LACONIC_KERNEL(dy.device(), conv2d_backward_data(dx, factor, w, o));
          grads.put(0, dx);
        }
      });
}

}  // namespace laconic::ops
