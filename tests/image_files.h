#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/image_codec.h"
#include "data/image_pack.h"

namespace laconic {

using File = std::vector<std::uint8_t>;

/// The file of tests/golden/images/ of that name.
inline File golden_image(const std::string& name) {
  File file;
  read_image_file(std::string(LACONIC_SOURCE) + "/tests/golden/images/" + name, file);
  return file;
}

/// Smooth waves that JPEG keeps well, other ones for another `kind`.   u8 [height, width, 3]
inline std::vector<std::uint8_t> waves(int width, int height, int kind = 0) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        pixels.push_back(static_cast<std::uint8_t>(128 + 60 * std::sin(0.05 * (x + kind * y) + c + kind) +
                                                   50 * std::cos(0.07 * y * (1 + c) + kind)));
  return pixels;
}

inline File jpeg_of(int width, int height, int kind = 0, int quality = 90) {
  return encode_jpeg(waves(width, height, kind).data(), width, height, quality);
}

inline File ppm_of(const std::vector<std::uint8_t>& pixels, int width, int height) {
  const std::string head = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  File file(head.begin(), head.end());
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

/// The pixels of an image that is all there.
inline std::vector<std::uint8_t> pixels_of(const Image& image) {
  return {image.pixels.begin(), image.pixels.end() - Image::kSlack};
}

struct Difference {
  int most = 0;
  double mean = 0;
};
inline Difference difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  Difference d;
  if (a.size() != b.size()) return {1000, 1000};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int one = std::abs(int{a[i]} - int{b[i]});
    d.most = std::max(d.most, one), d.mean += one;
  }
  d.mean /= static_cast<double>(std::max<std::size_t>(a.size(), 1));
  return d;
}

}  // namespace laconic
