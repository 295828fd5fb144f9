#pragma once
#include <cstdint>
#include <vector>

#include "data/image_codec.h"

namespace laconic {

/// Part of a picture, in pixels and fractions of them.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

/// What is asked for: `box` as `width` x `height` pixels, and of them only `window`.
struct Resizing {
  Box box;
  int width = 0, height = 0;
  Region window;

  /// The pixels of a picture of these extents that count for it.
  Region source(int picture_width, int picture_height) const;
};

/// Buffers of a thread that resizes, kept from one picture to the next.
struct ResizeBuffers {
  struct Taps {
    int most = 0;                       ///< weights an output has room for
    std::vector<int> first, count;      ///< of the inputs of each output
    std::vector<std::int32_t> weights;  ///< [outputs, most], in units of 2^-22
  } across, down;
  std::vector<std::uint8_t> rows;  ///< resized across only
};

/// Antialiased bilinear resizing: each pixel is the mean of those around its place, weighted by a triangle of
/// max(1, scale) pixels to either side, scale = box / output; what lies outside of the box does not count.
///   w(i) = max(0, 1 - |i + 0.5 - c| / max(1, scale)),   c = (o + 0.5) scale + the box's start,   then made to add up
///   to 1
/// Across first, rounded to 8 bits, then down, weights rounded to 2^-22: in integers, so that every processor gives the
/// same bits: those of PIL's Image.resize(…, BILINEAR) of the box, cut out, and so torchvision's on PIL's images.
/// (Pillow 13 goes down first where that is less work, and may differ by 1.) Only rows and columns of the window are
/// computed.
///   picture : holds at least source(…)   ->   out : u8 [window.height, window.width, 3]
/// Coordinates are the picture's, reduced by its scale; `out` has room for Image::kSlack bytes more.
/// source: Pillow, Image.resize (its documentation of filters); Turkowski, "Filters for common resampling tasks", 1990
void resize(const Image& picture, const Resizing& resizing, ResizeBuffers& buffers, std::uint8_t* out);

}  // namespace laconic
