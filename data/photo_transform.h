#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image_codec.h"
#include "data/resize.h"

namespace laconic {

/// What may happen to a photograph in training. A jitter J in (0, 1] draws a factor from [1 - J, 1 + J]; 0: none.
struct PhotoAugment {
  bool crop = false;  ///< a random part, of any size from 8 % to all of the area and from 3:4 to 4:3; else as evaluated
  bool flip = false;  ///< left and right exchanged with probability 1/2
  float brightness = 0, contrast = 0, saturation = 0;
  bool operator==(const PhotoAugment&) const = default;
};
inline constexpr PhotoAugment kNoPhotoAugment{};
inline constexpr PhotoAugment kRandomCropAndFlip{.crop = true, .flip = true};  ///< the usual one for ImageNet

/// What is drawn for one sample, from the key (seed, augment, epoch, sample) alone.
struct PhotoDraw {
  Region crop;
  bool flip = false;
  /// In the order in which they are applied; 0 brightness, 1 contrast, 2 saturation.
  std::array<int, 3> order{0, 1, 2};
  std::array<float, 3> factors{1, 1, 1};  ///< by kind
};

/// source: torchvision, RandomResizedCrop.get_params and ColorJitter.get_params: ten tries of an area, uniform in
/// [0.08, 1] of the picture's, and a ratio of width to height, uniform in its logarithm in [3/4, 4/3], then the largest
/// part in the middle that has such a ratio. Factors are uniform, and their order is.
PhotoDraw draw_photo(const PhotoAugment& augment, std::uint64_t seed, std::int64_t epoch, std::int64_t sample,
                     int width, int height);

/// Adjusts brightness, contrast and saturation, each a blend a + f (x - a) cut off at 0 and 255, where a is black, the
/// mean of the picture's grey, or the pixel's grey.   pixels : u8 [n, 3], in place
/// source: Pillow, ImageEnhance
void jitter_colors(const PhotoDraw& draw, std::uint8_t* pixels, std::size_t n);

/// How a picture is evaluated: its shorter side made `size` * margin (256 for 224), then the middle `size` x `size`.
/// source: torchvision, Resize and CenterCrop, and their rounding
Resizing evaluation_view(int size, int width, int height, double margin = 8 / 7.0);

/// Makes what a network sees of a file: decodes as much as is needed, takes a part of it as [size, size], jitters and
/// flips, and writes y = (x/255 - mean) / std per channel, float32. A pure function of file and key, in which any
/// thread may call it. Where a crop is reduced to less than half in training libjpeg decodes at a fraction of the size.
/// Cost: a few milliseconds for a photograph of 500 x 375, most of it decoding (`laconic bench pipeline`).
class PhotoTransform {
 public:
  struct Options {
    int size = 224;
    PhotoAugment augment{};
    std::uint64_t seed = 0;
    std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};  ///< ImageNet's
    JpegDecoder decoder = default_jpeg_decoder();
    double margin = 8 / 7.0;  ///< of evaluation_view
  };
  explicit PhotoTransform(const Options& options);

  /// file : JPEG, PNG or PPM   ->   out : float [3, size, size].   `name` is the file's, for messages.
  /// throws DataError as read_image_header and decode_image
  void operator()(std::span<const std::uint8_t> file, const std::string& name, std::int64_t epoch, std::int64_t sample,
                  float* out) const;

 private:
  Options o_;
  std::vector<float> table_;  // [3, 256]
};

}  // namespace laconic
