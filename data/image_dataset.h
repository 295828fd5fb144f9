#pragma once
#include <cstdint>
#include <functional>
#include <optional>
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
  std::string folder;            ///< the folder to look in, unless one is named
  bool crops_and_flips = false;  ///< whether images are augmented by kPadCropFlip
  /// Reads it from a folder. throws DataError as load_mnist does
  std::function<ImageDataset(const std::string& folder)> load;
};

/// The table of all kinds. Add your own before a program is called.
std::vector<ImageDatasetKind>& image_datasets();
/// throws UsageError for an unknown name, with the nearest known one. The reference holds until the table changes.
const ImageDatasetKind& image_dataset(const std::string& name);

// Readers. In place of a folder they take "synthetic" (data/synthetic.h). They throw DataError: a file is missing (says
// what is expected and where it can be had), empty, damaged or of another size; a label is out of range (names the
// record).

/// MNIST or Fashion-MNIST, 28 x 28 grey, 10 classes, from the four idx files, plain or gzipped, in `folder` (or below
/// it where torchvision puts them: raw, MNIST/raw, FashionMNIST/raw): train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, the dash before "idx" also as a dot.
///   fashion   the files do not differ, but mean and std do: 0.2860, 0.3530; of digits 0.1307, 0.3081. Not given:
///             names_fashion() says
ImageDataset load_mnist(const std::string& folder, std::optional<bool> fashion = {});
/// Guesses by the path whether a folder holds Fashion-MNIST: its last name that has "fashion" or "mnist" in it, in any
/// case, has "fashion".
bool names_fashion(const std::string& folder);

/// An array of bytes with its extents, outermost first.
struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> values;
};
/// Reads an idx file of unsigned bytes with `rank` dimensions; gzip is recognised by content.
///   offset 0    0 : u8 | 0 : u8 | type : u8 = 0x08 | rank : u8 | extent : u32 big-endian, rank times | values : u8
/// source: LeCun, Cortes, Burges, "The MNIST database", file formats.
/// throws DataError: wrong magic number (says expected and found), more or fewer bytes than the header promises
/// (nothing is allocated on a header's word), unreadable.
IdxArray read_idx(const std::string& path, int rank);

/// CIFAR-10 in its binary version, 3 x 32 x 32, 10 classes, from `folder` or its cifar-10-batches-bin, or from an
/// archive (cifar-10-binary.tar.gz): as many of data_batch_1.bin … data_batch_5.bin as are there, in this order, and
/// test_batch.bin; plain or gzipped, with or without ".bin"; any whole number of records each.
///   record of 3,073 bytes    label : u8 | red : u8[32][32] | green : u8[32][32] | blue : u8[32][32]
/// source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and the data set's page.
ImageDataset load_cifar10(const std::string& folder);
/// CIFAR-100, 100 classes (the fine labels), from train.bin and test.bin in `folder`, its cifar-100-binary, or an
/// archive (cifar-100-binary.tar.gz).
///   record of 3,074 bytes    coarse label : u8 (0 … 19) | fine label : u8 | red | green | blue
ImageDataset load_cifar100(const std::string& folder);

/// What may happen to a training image.
struct Augment {
  int pad = 0;        ///< pixels of black added on every side before a crop of the old size at a uniform place
  bool flip = false;  ///< whether left and right are exchanged with probability 1/2
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
