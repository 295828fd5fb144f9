#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace laconic {

/// Images of one split in host memory, one after the other.
struct ImageSplit {
  std::vector<std::uint8_t> pixels;  ///< [n, channels, height, width], plane after plane, row-major
  std::vector<std::int32_t> labels;  ///< [n], each in 0 … classes-1
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

/// A labelled image data set with its training and test split. Never changed once read, so that any number of workers
/// and data threads share one.
struct ImageDataset {
  std::string name;  ///< "mnist", "fashion-mnist", "cifar-10", "cifar-100", "synthetic"
  int channels = 0, height = 0, width = 0, classes = 0;
  std::vector<std::string> class_names{};  ///< empty: not known
  std::vector<float> mean, std;  ///< per channel, of pixels / 255: what a network sees is (x/255 - mean) / std
  ImageSplit train, test;

  std::int64_t image_bytes() const { return std::int64_t{channels} * height * width; }
};

/// A number that differs (but for chance, 2^-64) between data sets of different content, name, shape or constants:
/// ranks compare it before they train together. Cost: one pass, about 1 GB/s.
std::uint64_t fingerprint(const ImageDataset& data);

/// A data set of images that programs know by name.
struct ImageDatasetKind {
  std::string name;              ///< "cifar-10"
  std::string folder;            ///< where it is looked for, unless one is named
  bool crops_and_flips = false;  ///< images are augmented by kPadCropFlip (data/augment.h)
  /// Reads it from a folder. throws DataError as load_mnist does
  std::function<ImageDataset(const std::string& folder)> load;
};

/// The table of all kinds. Add your own before a program is called.
std::vector<ImageDatasetKind>& image_datasets();
/// throws UsageError for an unknown name, with the nearest known one. The reference holds until the table changes.
const ImageDatasetKind& image_dataset(const std::string& name);

}  // namespace laconic
