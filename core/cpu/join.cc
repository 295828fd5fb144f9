#include "core/cpu/join.h"

#include <algorithm>
#include <cstring>

#include "core/cpu/elementwise.h"
#include "core/parallel.h"

namespace laconic::cpu {

void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width) {
  parallel_for(
      rows, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(width, 1)), [=](std::int64_t b, std::int64_t e) {
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

template <class F>
void for_images(const ChannelView& small, const ChannelView& large, std::int64_t shift, F&& f) {
  const std::int64_t image = large.groups * large.width * large.rows;
  const bool eights = large.width % 8 == 0 && small.width % 8 == 0 && shift % 8 == 0;
  parallel_for(large.outer, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, image)),
               [&](std::int64_t b, std::int64_t e) {
                 for (std::int64_t n = b; n < e; ++n) f(n, eights);
               });
}

}  // namespace

void shortcut_forward(float* y, const float* x, const ChannelView& out, const ChannelView& in, std::int64_t h,
                      std::int64_t w, std::int64_t shift) {
  const std::int64_t image = out.groups * out.width * out.rows;
  for_images(out, in, shift, [&](std::int64_t n, bool eights) {
    std::fill_n(y + n * image, image, 0.0f);
    if (eights)
      every_second<8>(out, in, h, w, shift, n,
                      [&](std::int64_t from, std::int64_t to) { std::memcpy(y + to, x + from, 8 * sizeof(float)); });
    else
      every_second<1>(out, in, h, w, shift, n, [&](std::int64_t from, std::int64_t to) { y[to] = x[from]; });
  });
}

void shortcut_backward(float* dx, const float* dy, const ChannelView& out, const ChannelView& in, std::int64_t h,
                       std::int64_t w, std::int64_t shift) {
  const std::int64_t image = in.groups * in.width * in.rows;
  for_images(out, in, shift, [&](std::int64_t n, bool eights) {
    std::fill_n(dx + n * image, image, 0.0f);
    if (eights)
      every_second<8>(out, in, h, w, shift, n,
                      [&](std::int64_t from, std::int64_t to) { std::memcpy(dx + from, dy + to, 8 * sizeof(float)); });
    else
      every_second<1>(out, in, h, w, shift, n, [&](std::int64_t from, std::int64_t to) { dx[from] = dy[to]; });
  });
}

}  // namespace laconic::cpu
