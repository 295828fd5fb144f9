#include <cstring>

#include "core/cpu/each.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"

namespace laconic::cpu {

void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width) {
  parallel_for(rows, row_grain(width), [=](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i)
      std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(width) * sizeof(float));
  });
}

void add_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
              std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i) add(to + i * to_stride, from + i * from_stride, width);
}

namespace {

/// Calls f(place in the large image, place in the small one) for runs of kUnit channels, at every second pixel.
template <int kUnit, class F>
void every_second(const ChannelView& small, const ChannelView& large, std::int64_t h, std::int64_t w,
                  std::int64_t shift, std::int64_t n, F&& f) {
  const std::int64_t channels = large.groups * large.width, small_w = (w + 1) / 2;
  for (std::int64_t c = 0; c < channels; c += kUnit) {
    const std::int64_t d = c + shift;
    const std::int64_t from = (n * large.groups + c / large.width) * large.rows * large.width + c % large.width;
    const std::int64_t to = (n * small.groups + d / small.width) * small.rows * small.width + d % small.width;
    for (std::int64_t i = 0; i < h; i += 2)
      for (std::int64_t j = 0; j < w; j += 2)
        f(from + (i * w + j) * large.width, to + (i / 2 * small_w + j / 2) * small.width);
  }
}

/// Moves the shared channels of all images; `written` holds images like `of`, and is zero elsewhere.
template <bool kForward>
void shortcut(float* written, const ChannelView& of, const float* read, const ChannelView& small,
              const ChannelView& large, std::int64_t h, std::int64_t w, std::int64_t shift) {
  const std::int64_t image = of.groups * of.width * of.rows;
  const bool eights = large.width % 8 == 0 && small.width % 8 == 0 && shift % 8 == 0;
  const auto move = [=](std::int64_t n, auto unit) {
    every_second<unit>(small, large, h, w, shift, n, [=](std::int64_t in_large, std::int64_t in_small) {
      std::copy_n(read + (kForward ? in_large : in_small), unit(), written + (kForward ? in_small : in_large));
    });
  };
  parallel_for(large.outer, row_grain(large.groups * large.width * large.rows), [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t n = b; n < e; ++n) {
      std::fill_n(written + n * image, image, 0.0f);
      eights ? move(n, std::integral_constant<int, 8>()) : move(n, std::integral_constant<int, 1>());
    }
  });
}

}  // namespace

void shortcut_forward(float* y, const float* x, const ChannelView& out, const ChannelView& in, std::int64_t h,
                      std::int64_t w, std::int64_t shift) {
  shortcut<true>(y, out, x, out, in, h, w, shift);
}

void shortcut_backward(float* dx, const float* dy, const ChannelView& out, const ChannelView& in, std::int64_t h,
                       std::int64_t w, std::int64_t shift) {
  shortcut<false>(dx, in, dy, out, in, h, w, shift);
}

}  // namespace laconic::cpu
