#include "core/cpu/each.h"
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
