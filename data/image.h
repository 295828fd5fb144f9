#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace laconic {

/// A rectangle of whole pixels.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Region&) const = default;
};

/// Pixels of a photograph in memory, or of the part of one that was asked for: u8 [height, width, 3], red, green, blue,
/// row-major. Coordinates are those of the whole picture, of which this is `part`; reduced by `scale` where it was
/// decoded so (data/image_codec.h). Buffers are kept when an object is used again.
struct Image {
  int width = 0, height = 0;         ///< of the whole picture, ceil(its size / scale)
  int scale = 1;                     ///< 1, 2, 4 or 8
  Region part;                       ///< what `pixels` holds
  std::vector<std::uint8_t> pixels;  ///< part.height * part.width * 3 and kSlack bytes that nobody looks at

  static constexpr int kSlack = 1;  ///< so that a pixel can be fetched as four bytes
  void resize(const Region& region) {
    part = region;
    pixels.resize(static_cast<std::size_t>(region.width) * static_cast<std::size_t>(region.height) * 3 + kSlack);
  }
  /// Pixel (x, y) of the whole picture; it must lie in `part`.
  const std::uint8_t* at(int x, int y) const {
    return pixels.data() + (static_cast<std::size_t>(y - part.y) * static_cast<std::size_t>(part.width) +
                            static_cast<std::size_t>(x - part.x)) *
                               3;
  }
  std::uint8_t* at(int x, int y) { return const_cast<std::uint8_t*>(std::as_const(*this).at(x, y)); }
};

}  // namespace laconic
