#pragma once
#include <vector>

#include "core/autograd.h"

namespace laconic::inline ops {

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
