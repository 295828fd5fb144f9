#pragma once
#include <vector>

#include "core/autograd.h"

namespace laconic::inline ops {

struct PoolOptions {
  int kernel = 2;
  int stride = 0;  ///< 0: the same as kernel
  int pad = 0;
  bool ceil_mode = false;         ///< round the number of windows up: the last may hang over the edge
  bool count_include_pad = true;  ///< averages only: zeros of the padding count as values
};

/// Largest value of each kernel x kernel window.   x : [N, C, H, W]  ->  y : [N, C, H', W'],
///   H' = (H + 2 pad - kernel) / stride + 1, rounded down (up with ceil_mode, but no window starts in the right
///   padding)
///   dx : dy goes to the first largest element of each window.   Saves one byte per output.   Keeps the layout.
///   source   PyTorch's semantics.
/// Throws ShapeError if x is not 4-d, pad > kernel / 2, kernel > 16, or the kernel is larger than the padded image.
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);

/// Mean of each window; shapes and errors as max_pool2d.
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);

/// Mean over windows chosen so that the output is [N, C, out_h, out_w]: output i takes inputs
/// floor(i H / out_h) … ceil((i + 1) H / out_h) - 1, and the same for columns; x itself where it has that size.
///   source   PyTorch's semantics
Tensor adaptive_avg_pool2d(const Tensor& x, int out_h, int out_w);

/// Larger images: every pixel `scale` times in both directions, or bilinear between their centres (PyTorch's
/// align_corners=False).   x : [N, C, H, W]  ->  y : [N, C, scale H, scale W]
Tensor upsample2d(const Tensor& x, int scale, bool bilinear = false);

/// Channels of all inputs after one another.   x_i : [N, C_i] or [N, C_i, H, W]   ->   y : [N, sum C_i (, H, W)]
/// Images come out blocked16 if all have channels in sixteens and most channels came so, else channels_last.
/// Throws ShapeError if N, H or W differ or nothing is given.
Tensor concat_channels(const std::vector<Tensor>& x);

/// The identity shortcut where a residual network halves the image and widens it (option A): no parameters.
///   y[n, c + (channels - C) / 2, i, j] = x[n, c, 2i, 2j], zero in the other channels: half before, half after
///   x : [N, C, H, W]   ->   y : [N, channels, (H + 1) / 2, (W + 1) / 2]
///   source   He et al. 2016, section 3.3, (A)
/// Throws ShapeError if x is not 4-d or has more channels.
Tensor pad_shortcut(const Tensor& x, std::int64_t channels);

}  // namespace laconic::inline ops
