#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image_codec.h"
#include "data/image_source.h"
#include "data/loader.h"

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
    std::vector<int> first, count;      ///< the inputs of each output
    std::vector<std::int32_t> weights;  ///< [outputs, most], in units of 2^-22
  } across, down;
  std::vector<std::uint8_t> rows;  ///< resized across only
};

/// Antialiased bilinear resizing: each pixel is the mean of those around its place, weighted by a triangle of
/// max(1, scale) pixels to either side, scale = box / output; what lies outside of the box does not count.
///   w(i) = max(0, 1 - |i + 0.5 - c| / max(1, scale)),   c = (o + 0.5) scale + the box's start,   then made to add up
///   to 1
/// Across first, rounded to 8 bits, then down, weights rounded to 2^-22: in integers, so that every processor gives the
/// same bits, as PIL's Image.resize(…, BILINEAR) of the box, cut out, and so torchvision's on PIL's images.
/// (Pillow 13 goes down first where that is less work, and may differ by 1.) Only rows and columns of the window are
/// computed.
///   picture : holds at least source(…)   ->   out : u8 [window.height, window.width, 3]
/// Coordinates are the picture's, reduced by its scale; `out` has room for Image::kSlack bytes more.
/// source: Pillow, Image.resize (its documentation of filters); Turkowski, "Filters for common resampling tasks", 1990
void resize(const Image& picture, const Resizing& resizing, ResizeBuffers& buffers, std::uint8_t* out);

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
  std::array<float, 3> factors{1, 1, 1};  ///< factors by kind
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
/// Cost: a few milliseconds for a photograph of 500 x 375, most of it decoding.
class PhotoTransform {
 public:
  struct Options {
    int size = 224;
    PhotoAugment augment{};
    std::uint64_t seed = 0;
    std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};  ///< ImageNet's
    JpegDecoder decoder = default_jpeg_decoder();
    double margin = 8 / 7.0;  ///< the margin of evaluation_view
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

/// What comes of a sample whose file is bad. Each depends on the data alone.
enum class Bad {
  replaced,  ///< the next good one, and its label, stand in its place: no worker trains on fewer
  left_out   ///< it has the label kLeftOut: an evaluation counts no image twice
};

/// What a DataLoader reads samples with: [3, size, size].
ReadSample photo_reader(std::shared_ptr<const ImageSource> source, const PhotoTransform::Options& options,
                        std::shared_ptr<BadFiles> bad, Bad then);

/// Photographs as samples: x float32 [3, size, size], y the label, int64 []. Its augmentation draws from the
/// sample's own numbers, and not from options.seed. A file that is bad ends the run.
SharedDataset photo_dataset(std::shared_ptr<const ImageSource> source, const PhotoTransform::Options& options);

}  // namespace laconic
