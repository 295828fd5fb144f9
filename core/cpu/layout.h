#pragma once
#include <cstdint>

#include "core/tensor.h"

namespace laconic::cpu {

/// Copies x [N, C, H, W] from one layout to another: every element moved once. blocked16 needs C a multiple of 16.
void convert_layout(float* y, Layout to, const float* x, Layout from, std::int64_t n, std::int64_t c, std::int64_t hw);

/// An activation as kernels see it, whatever the layout: [outer][groups][rows][width], channels = groups * width, the
/// channel varying fastest within `width`.   channels_last: groups 1, width C.   blocked16: groups C/16, width 16.
/// plain with one pixel (or 2-d, [N, C]): rows 1, width C, groups 1.
struct ChannelView {
  std::int64_t outer, groups, rows, width;
};
/// Throws ShapeError for a plain layout with more than one pixel: convert first.
ChannelView channel_view(const Tensor& x);

}  // namespace laconic::cpu
