#include "core/ops/images.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"
#include "core/ops/common.h"
#include "core/ops/linear.h"
#include "core/ops/reshape.h"

namespace laconic::inline ops {
namespace {

PoolOptions checked(const char* what, const Tensor& x, PoolOptions o) {
  if (o.stride == 0) o.stride = o.kernel;
  require_images(what, x);
  require<ShapeError>(o.kernel >= 1 && o.stride >= 1 && o.pad >= 0 && o.pad <= o.kernel / 2, what, ": kernel ",
                      o.kernel, ", stride ", o.stride, ", pad ", o.pad,
                      ": pad may be at most half of the kernel, and stride at least 1.");
  require<ShapeError>(x.dim(2) + 2 * o.pad >= o.kernel && x.dim(3) + 2 * o.pad >= o.kernel, what, ": a window of ",
                      o.kernel, " x ", o.kernel, " does not fit into x ", x.shape(), " with pad ", o.pad,
                      ". Use a smaller kernel or more padding.");
  return o;
}

std::int64_t windows(std::int64_t extent, const PoolOptions& o) {
  const std::int64_t room = extent + 2 * o.pad - o.kernel + (o.ceil_mode ? o.stride - 1 : 0);
  std::int64_t n = room / o.stride + 1;
  if (o.ceil_mode && (n - 1) * o.stride >= extent + o.pad) --n;
  return n;
}

Averages averages(std::int64_t extent, const PoolOptions& o) {
  return {extent, windows(extent, o), o.kernel, o.stride, o.pad, o.count_include_pad};
}

Tensor average(const char* what, const Tensor& x0, const Averages& rows, const Averages& columns) {
  const Tensor x = channelwise(x0);
  const ChannelView v = channel_view(x);
  const std::int64_t images = v.outer * v.groups;
  const Tensor y = Tensor::empty({x.dim(0), x.dim(1), rows.out, columns.out}, x.dtype(), x.device(), x.layout());
  LACONIC_REAL_KERNEL(x, average_pool_forward(y.data<Real>(), x.data<Real>(), images, v.width, rows, columns));
  return record(what, y, {x0}, [=, layout = x.layout(), in = x.shape()](const Tensor& dy0, Grads& grads) {
    const Tensor dy = raw::to_layout(dy0, layout);
    Tensor dx = Tensor::empty(in, dy.dtype(), dy.device(), layout);
    LACONIC_REAL_KERNEL(dy, average_pool_backward(dx.data<Real>(), dy.data<Real>(), images, v.width, rows, columns));
    grads.put(0, std::move(dx));
  });
}

/// [scale n, n]: what each place of a larger line takes from the places of the smaller one.
Tensor weights_between(std::int64_t n, int scale, Device device) {
  std::vector<float> w(static_cast<std::size_t>(scale * n * n));
  for (std::int64_t i = 0; i < scale * n; ++i) {
    const double at = std::max(0.0, (static_cast<double>(i) + 0.5) / scale - 0.5), before = std::floor(at);
    const auto first = static_cast<std::int64_t>(before), second = std::min(first + 1, n - 1);
    w[static_cast<std::size_t>(i * n + first)] += static_cast<float>(1 - (at - before));
    w[static_cast<std::size_t>(i * n + second)] += static_cast<float>(at - before);
  }
  return Tensor::of({scale * n, n}, w, device);
}

}  // namespace

Tensor max_pool2d(const Tensor& x0, const PoolOptions& options) {
  const PoolOptions o = checked("max_pool2d", x0, options);
  require<ShapeError>(o.kernel <= 16, "max_pool2d: kernel ", o.kernel, " is larger than 16.");
  const Tensor x = channelwise(x0);
  const ChannelView v = channel_view(x);
  const PoolShape s{v.outer * v.groups, x.dim(2), x.dim(3), windows(x.dim(2), o), windows(x.dim(3), o), v.width,
                    o.kernel,           o.stride, o.pad};
  const Tensor y = Tensor::empty({x.dim(0), x.dim(1), s.out_h, s.out_w}, x.dtype(), x.device(), x.layout());
  const bool wanted = wants_gradient({x0});
  const Tensor index = wanted ? Tensor::empty(y.shape(), DType::u8, x.device(), x.layout()) : Tensor();
  LACONIC_REAL_KERNEL(
      x, max_pool_forward(y.data<Real>(), wanted ? index.data<std::uint8_t>() : nullptr, x.data<Real>(), s));
  return record("max_pool2d", y, {x0}, [index, s, in = x.shape()](const Tensor& dy0, Grads& grads) {
    const Tensor dy = raw::to_layout(dy0, index.layout());
    Tensor dx = Tensor::empty(in, dy.dtype(), dy.device(), index.layout());
    LACONIC_REAL_KERNEL(dy, max_pool_backward(dx.data<Real>(), dy.data<Real>(), index.data<std::uint8_t>(), s));
    grads.put(0, std::move(dx));
  });
}

Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) {
  const PoolOptions o = checked("avg_pool2d", x, options);
  return average("avg_pool2d", x, averages(x.dim(2), o), averages(x.dim(3), o));
}

Tensor adaptive_avg_pool2d(const Tensor& x, int out_h, int out_w) {
  require_images("adaptive_avg_pool2d", x);
  require<ShapeError>(out_h >= 1 && out_w >= 1 && x.dim(2) >= 1 && x.dim(3) >= 1,
                      "adaptive_avg_pool2d: cannot average x ", x.shape(), " to ", out_h, " x ", out_w, ".");
  if (x.dim(2) == out_h && x.dim(3) == out_w) return x;
  return average("adaptive_avg_pool2d", x, {.extent = x.dim(2), .out = out_h}, {.extent = x.dim(3), .out = out_w});
}

Tensor upsample2d(const Tensor& x, int scale, bool bilinear) {
  require_images("upsample2d", x);
  require<ShapeError>(scale >= 1, "upsample2d: a scale of ", scale, " is less than 1.");
  const std::int64_t n = x.dim(0), c = x.dim(1), h = x.dim(2), w = x.dim(3);
  if (bilinear)
    return matmul(matmul(weights_between(h, scale, x.device()), x),
                  transpose(weights_between(w, scale, x.device()), 0, 1));
  const Tensor pixels = reshape(x, Shape{n, c, h, 1, w, 1});
  return reshape(expand(pixels, {n, c, h, scale, w, scale}), Shape{n, c, h * scale, w * scale});
}

Tensor concat_channels(const std::vector<Tensor>& inputs) {
  require<ShapeError>(!inputs.empty(), "concat: nothing to join.");
  const Tensor& first = inputs.front();
  require<ShapeError>(first.rank() == 2 || first.rank() == 4, "concat: ", first.shape(),
                      " is neither [N, C] nor [N, C, H, W].");
  Device device = first.device();
  std::int64_t channels = 0, in_blocks = 0;
  bool can_block = true, pairs = true;  // pairs: two numbers of bf16 are a word
  for (const Tensor& x : inputs) {
    require<ShapeError>(x.rank() == first.rank() && x.shape().with(1, 0) == first.shape().with(1, 0),
                        "concat: ", first.shape(), " and ", x.shape(), " differ in more than their channels.");
    if (require_one_device("concat", {{"the first", first}, {"another", x}}) == kGhost) device = kGhost;
    channels += x.dim(1);
    can_block &= x.dim(1) % 16 == 0;
    pairs &= x.dtype() == DType::bf16 && x.dim(1) % 2 == 0 && reinterpret_cast<std::uintptr_t>(x.raw_data()) % 4 == 0;
    if (x.layout() == Layout::blocked16) in_blocks += x.dim(1);
  }
  // Most channels decide, so that one odd branch does not cost all that follows the faster kernels.
  const bool blocked = can_block && 2 * in_blocks > channels;
  const Layout layout = first.rank() == 2 ? Layout::plain : blocked ? Layout::blocked16 : Layout::channels_last;
  // Joined runs: all of a sample where channels come in blocks (or there is one pixel), one pixel's channels otherwise.
  const std::int64_t pixels = first.rank() == 2 ? 1 : first.dim(2) * first.dim(3);
  const std::int64_t rows = layout == Layout::channels_last ? first.dim(0) * pixels : first.dim(0);
  const std::int64_t per_channel = layout == Layout::channels_last ? 1 : pixels;
  const std::int64_t stride = channels * per_channel;

  const std::int64_t per_word = pairs ? 2 : 1, pitch = stride / per_word;
  const Tensor y = Tensor::empty(first.shape().with(1, channels), pairs ? DType::bf16 : DType::f32, device, layout);
  std::vector<Shape> shapes;
  std::int64_t at = 0;
  for (const Tensor& x0 : inputs) {
    const Tensor x = raw::to_layout(pairs ? x0.value() : floats("concat", x0), layout);
    const std::int64_t width = x.dim(1) * per_channel / per_word;
    LACONIC_KERNEL(y.device(), copy_rows(words(y) + at, pitch, words(x), width, rows, width));
    at += width;
    shapes.push_back(x.shape());
  }
  return record("concat", y, inputs, [=](const Tensor& dy0, Grads& grads) {
    const Tensor dy = raw::to_layout(dy0, layout);
    std::int64_t from = 0;
    for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
      const Shape& shape = shapes[static_cast<std::size_t>(i)];
      const std::int64_t width = shape[1] * per_channel / per_word;
      if (grads.wants(i)) {
        Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device(), layout);
        LACONIC_KERNEL(dy.device(), copy_rows(words(dx), width, words(dy) + from, pitch, rows, width));
        grads.put(i, std::move(dx));
      }
      from += width;
    }
  });
}

Tensor pad_shortcut(const Tensor& x0, std::int64_t channels) {
  require_images("pad_shortcut", x0);
  require<ShapeError>(channels >= x0.dim(1), "pad_shortcut: x ", x0.shape(), " has more than ", channels, " channels.");
  const Tensor x = channelwise(x0);
  const std::int64_t h = x.dim(2), w = x.dim(3), shift = (channels - x.dim(1)) / 2;
  const Layout layout =
      x.layout() == Layout::blocked16 && channels % 16 == 0 ? Layout::blocked16 : Layout::channels_last;
  const Tensor y = Tensor::empty({x.dim(0), channels, (h + 1) / 2, (w + 1) / 2}, x.dtype(), x.device(), layout);
  const ChannelView in = channel_view(x), out = channel_view(y);
  LACONIC_REAL_KERNEL(x, shortcut_forward(y.data<Real>(), x.data<Real>(), out, in, h, w, shift));
  return record("pad_shortcut", y, {x0},
                [=, shape = x.shape(), in_layout = x.layout()](const Tensor& dy0, Grads& grads) {
                  const Tensor dy = raw::to_layout(dy0, layout);
                  Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device(), in_layout);
                  LACONIC_REAL_KERNEL(dy, shortcut_backward(dx.data<Real>(), dy.data<Real>(), out, in, h, w, shift));
                  grads.put(0, std::move(dx));
                });
}

}  // namespace laconic::inline ops
