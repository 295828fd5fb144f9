#include <cstring>

#include "core/cpu/each.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"

namespace laconic::cpu {
namespace {

/// y[j * y_stride + i] = x[i * x_stride + j] for i < rows, j < columns, by tiles that stay in L1.
LACONIC_MULTIVERSION void transpose(float* LACONIC_RESTRICT y, std::int64_t y_stride, const float* LACONIC_RESTRICT x,
                                    std::int64_t x_stride, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (std::int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const std::int64_t i1 = std::min(i0 + kTile, rows), j1 = std::min(j0 + kTile, columns);
      for (std::int64_t j = j0; j < j1; ++j)
        for (std::int64_t i = i0; i < i1; ++i) y[j * y_stride + i] = x[i * x_stride + j];
    }
}

}  // namespace

void convert_layout(float* y, Layout to, const float* x, Layout from, std::int64_t n, std::int64_t c, std::int64_t hw) {
  const std::int64_t image = c * hw;
  parallel_for(n, row_grain(image), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* out = y + i * image;
      const float* in = x + i * image;
      if (from == Layout::plain && to == Layout::channels_last) {
        transpose(out, c, in, hw, c, hw);
      } else if (from == Layout::channels_last && to == Layout::plain) {
        transpose(out, hw, in, c, hw, c);
      } else {
        for (std::int64_t c0 = 0; c0 < c; c0 += 16) {
          if (from == Layout::plain) transpose(out + c0 * hw, 16, in + c0 * hw, hw, 16, hw);
          if (to == Layout::plain) transpose(out + c0 * hw, hw, in + c0 * hw, 16, hw, 16);
          if (from == Layout::channels_last)
            for (std::int64_t p = 0; p < hw; ++p) std::copy_n(in + p * c + c0, 16, out + c0 * hw + p * 16);
          if (to == Layout::channels_last)
            for (std::int64_t p = 0; p < hw; ++p) std::copy_n(in + c0 * hw + p * 16, 16, out + p * c + c0);
        }
      }
    }
  });
}

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

namespace laconic {

ChannelView channel_view(const Tensor& x) {
  if (x.rank() == 2) return {x.dim(0), 1, 1, x.dim(1)};
  require<ShapeError>(x.rank() == 4, "kernel: shape ", x.shape(), " is neither [N, C] nor [N, C, H, W].");
  const std::int64_t n = x.dim(0), c = x.dim(1), hw = x.dim(2) * x.dim(3);
  if (x.layout() == Layout::blocked16) return {n, c / 16, hw, 16};
  require<ShapeError>(x.layout() == Layout::channels_last || hw == 1 || c == 1,
                      "kernel: plain images must be converted first.");
  return {n, 1, hw, c};
}

}  // namespace laconic
