#pragma once
#include "core/raw.h"

/// What operations on images [N, C, H, W] share.
namespace laconic::ops {

inline void require_images(const char* what, const Tensor& x) {
  require<ShapeError>(x.rank() == 4, what, ": x is ", x.shape(), ", not images [N, C, H, W].");
}

/// x in a layout that kernels over channels read (core/cpu/layout.h, ChannelView): plain images become channels_last.
inline Tensor channelwise(const Tensor& x) {
  return x.rank() == 4 && x.layout() == Layout::plain ? raw::to_layout(x, Layout::channels_last) : x.value();
}

}  // namespace laconic::ops
