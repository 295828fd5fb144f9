#pragma once
#include <cstdint>
#include <vector>

#include "data/image_dataset.h"

namespace laconic {

/// What may happen to a training image.
struct Augment {
  int pad = 0;        ///< pixels of black added on every side before a crop of the old size at a uniform place
  bool flip = false;  ///< left and right exchanged with probability 1/2
};
inline constexpr Augment kNoAugment{};
inline constexpr Augment kPadCropFlip{.pad = 4, .flip = true};  ///< the usual one for CIFAR

/// Makes what a network sees of a stored image: crop and flip, keyed by (seed, augment, epoch, sample), then
/// y = (x/255 - mean) / std per channel, float32, looked up in a table of 256 values. Padding is black (x = 0) and is
/// normalised like every pixel. A pure function: any thread may call it for any image.
class ImageTransform {
 public:
  ImageTransform(const ImageDataset& shape, const Augment& augment, std::uint64_t seed);

  /// image : u8 [C, H, W]   ->   out : float [C, H, W]
  void operator()(const std::uint8_t* image, std::int64_t epoch, std::int64_t sample, float* out) const;

 private:
  int channels_, height_, width_;
  Augment augment_;
  std::uint64_t seed_;
  std::vector<float> table_;  // [C, 256]
};

}  // namespace laconic
