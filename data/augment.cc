#include "data/augment.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"

namespace laconic {

ImageTransform::ImageTransform(const ImageDataset& shape, const Augment& augment, std::uint64_t seed)
    : channels_(shape.channels), height_(shape.height), width_(shape.width), augment_(augment), seed_(seed) {
  const auto channels = static_cast<std::size_t>(channels_);
  require<ShapeError>(shape.mean.size() == channels && shape.std.size() == channels, "augment: ", shape.name, " has ",
                      channels, " channels, but ", shape.mean.size(), " means and ", shape.std.size(),
                      " standard deviations.");
  require<UsageError>(augment.pad >= 0, "augment: pad is ", augment.pad, ", at least 0 is needed.");
  table_.resize(channels * 256);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t v = 0; v < 256; ++v)
      table_[c * 256 + v] = (static_cast<float>(v) / 255.0f - shape.mean[c]) / shape.std[c];
}

void ImageTransform::operator()(const std::uint8_t* image, std::int64_t epoch, std::int64_t sample, float* out) const {
  int dy = 0, dx = 0;  // the output's pixel (y, x) is the image's (y + dy, x + dx)
  bool flip = false;
  if (augment_.pad > 0 || augment_.flip) {
    Random random(seed_, Purpose::augment, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
    const auto places = static_cast<std::uint32_t>(2 * augment_.pad + 1);
    dy = static_cast<int>(random.below(places)) - augment_.pad;
    dx = static_cast<int>(random.below(places)) - augment_.pad;
    flip = augment_.flip && random.bits() >> 31;
  }
  // Columns [from, to) of the crop lie inside the image.
  const int from = std::clamp(-dx, 0, width_), to = std::clamp(width_ - dx, from, width_);
  for (int c = 0; c < channels_; ++c, image += height_ * width_) {
    const float* table = table_.data() + c * 256;
    const float black = table[0];
    for (int y = 0; y < height_; ++y, out += width_) {
      if (y + dy < 0 || y + dy >= height_) {
        std::fill_n(out, width_, black);
        continue;
      }
      const std::uint8_t* row = image + (y + dy) * width_;
      for (int x = 0; x < from; ++x) out[x] = black;
      for (int x = from; x < to; ++x) out[x] = table[row[x + dx]];
      for (int x = to; x < width_; ++x) out[x] = black;
      if (flip) std::reverse(out, out + width_);
    }
  }
}

}  // namespace laconic
