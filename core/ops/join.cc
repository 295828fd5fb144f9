#include "core/ops/join.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"
#include "core/ops/common.h"

namespace laconic::inline ops {

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
  return record(
      "pad_shortcut", y, {x0}, [=, shape = x.shape(), in_layout = x.layout()](const Tensor& dy0, Grads& grads) {
        const Tensor dy = raw::to_layout(dy0, layout);
        Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device(), in_layout);
        LACONIC_REAL_KERNEL(dy, shortcut_backward(dx.data<Real>(), dy.data<Real>(), out, in, h, w, shift));
        grads.put(0, std::move(dx));
      });
}

}  // namespace laconic::inline ops
