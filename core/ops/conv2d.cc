#include "core/ops/conv2d.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/ops/common.h"
#include "core/ops/functions.h"
#include "core/precision.h"

namespace laconic::inline ops {
namespace {

/// For a convolution of x, of which a gradient may be wanted.
cpu::ConvLayouts layouts_for(const Tensor& x, std::int64_t out_channels, int groups, bool with_gradient) {
  const cpu::ConvLayouts channels_last{Layout::channels_last, Layout::channels_last};  // CUDA's
  if (x.device().kind == Device::Kind::cuda) return channels_last;
  // An image in plain order is read as it comes, but oneDNN has no fast kernel that writes a gradient in that order.
  const cpu::ConvLayouts fastest = cpu::conv_layouts(x, out_channels, groups);
  return fastest.input != Layout::plain || !with_gradient ? fastest : channels_last;
}

void check_options(const char* what, const Conv2dOptions& o, int output_pad) {
  require<ShapeError>(o.stride >= 1 && o.pad >= 0 && o.dilation >= 1 && o.groups >= 1 && output_pad >= 0 &&
                          (output_pad == 0 || output_pad < std::max(o.stride, o.dilation)),
                      what, ": a stride of ", o.stride, ", a pad of ", o.pad, ", a dilation of ", o.dilation, ", ",
                      o.groups, " groups and an output pad of ", output_pad, " make no sense together.");
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w0, const Tensor& b0, const Conv2dOptions& o) {
  check_options("conv2d", o, 0);
  const Tensor w = floats("conv2d", w0), b = b0.defined() ? floats("conv2d", b0) : b0;
  require<ShapeError>(x.rank() == 4, "conv2d: x is ", x.shape(), ", but a convolution takes images [N, C, H, W].");
  require<ShapeError>(w.rank() == 4 && w.dim(1) * o.groups == x.dim(1) && w.dim(0) % o.groups == 0, "conv2d: x is ",
                      x.shape(), " but w is ", w.shape(), " with ", o.groups, " groups: x needs ", w.dim(1) * o.groups,
                      " channels.");
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
  const cpu::ConvLayouts layouts = layouts_for(x, w.dim(0), o.groups, wants_gradient({x}));
  const Tensor in = raw::to_layout(raw::cast(x, product_dtype(x.device())), layouts.input);
  const Tensor y = Tensor::empty(shape, in.dtype(), x.device(), layouts.output);
  if (y.elements() > 0) LACONIC_KERNEL(x.device(), conv2d_forward(y, in, w, b, o));

  return record(
      "conv2d", y, {x, w0, b0},
      [in, w, y_relu = o.relu ? y : Tensor{}, layout = y.layout(), bias = b.defined(), o](const Tensor& gradient,
                                                                                          Grads& grads) {
        const Tensor dy = o.relu ? relu_mask(gradient, y_relu) : raw::to_layout(gradient, layout);
        const bool wants_bias = bias && grads.wants(2);
        if (grads.wants(1) || wants_bias) {
          const Grads::Target dw = grads.wants(1)
                                       ? grads.into(1, w.shape(), w.device())
                                       : Grads::Target{Tensor::empty(w.shape(), DType::f32, w.device()), false};
          const Grads::Target db = wants_bias ? grads.into(2, {w.dim(0)}, w.device()) : Grads::Target{};
          on_device(
              dy.device(), [&] { cpu::conv2d_backward_weights(dw.tensor, dw.add, db.tensor, db.add, in, dy, o); },
              [&] {
                cuda::conv2d_backward_weights(dw.tensor, dw.add, in, dy, o);
                if (wants_bias)
                  LACONIC_REAL_KERNEL(dy, sum_rows(db.tensor.data<float>(), dy.data<Real>(), dy.elements() / w.dim(0),
                                                   w.dim(0), db.add));
              });
        }
        if (grads.wants(0)) {
          const Tensor dx = Tensor::like(in);
          LACONIC_KERNEL(dy.device(), conv2d_backward_data(dx, dy, w, o));
          grads.put(0, dx);
        }
      });
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& w0, const Conv2dOptions& o, int output_pad) {
  if (o.relu) {
    Conv2dOptions without = o;
    without.relu = false;
    return relu(conv_transpose2d(x, w0, without, output_pad));
  }
  const Tensor w = floats("conv_transpose2d", w0);
  check_options("conv_transpose2d", o, output_pad);
  require_images("conv_transpose2d", x);
  require<ShapeError>(w.rank() == 4 && w.dim(0) == x.dim(1) && w.dim(0) % o.groups == 0, "conv_transpose2d: x is ",
                      x.shape(), " but w is ", w.shape(), " with ", o.groups, " groups: x needs ",
                      w.rank() == 4 ? w.dim(0) : 0, " channels.");
  require_one_device("conv_transpose2d", {{"x", x}, {"w", w}});
  const auto extent = [&](std::int64_t in, std::int64_t kernel) {
    const std::int64_t out = (in - 1) * o.stride - 2 * o.pad + o.dilation * (kernel - 1) + output_pad + 1;
    require<ShapeError>(out >= 1, "conv_transpose2d: of x ", x.shape(), " a pad of ", o.pad, " leaves nothing.");
    return out;
  };
  const Shape shape{x.dim(0), w.dim(1) * o.groups, extent(x.dim(2), w.dim(2)), extent(x.dim(3), w.dim(3))};
  // The convolution whose input is y and whose output is x.
  const cpu::ConvLayouts layouts =
      layouts_for(Tensor::empty(shape, DType::f32, x.device()), w.dim(0), o.groups, /*with_gradient=*/true);
  const Tensor in = raw::to_layout(raw::cast(x, product_dtype(x.device())), layouts.output);
  const Tensor y = Tensor::empty(shape, in.dtype(), x.device(), layouts.input);
  if (y.elements() > 0) LACONIC_KERNEL(x.device(), conv2d_backward_data(y, in, w, o));

  return record("conv_transpose2d", y, {x, w0},
                [in, w, layout = y.layout(), o](const Tensor& gradient, Grads& grads) {
                  const Tensor dy = raw::to_layout(gradient, layout);
                  if (grads.wants(1)) {
                    const Grads::Target dw = grads.into(1, w.shape(), w.device());
                    on_device(
                        dy.device(), [&] { cpu::conv2d_backward_weights(dw.tensor, dw.add, {}, false, dy, in, o); },
                        [&] { cuda::conv2d_backward_weights(dw.tensor, dw.add, dy, in, o); });
                  }
                  if (grads.wants(0)) {
                    const Tensor dx = Tensor::like(in);
                    LACONIC_KERNEL(dy.device(), conv2d_forward(dx, dy, w, Tensor(), o));
                    grads.put(0, dx);
                  }
                });
}

}  // namespace laconic::inline ops
