#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/image_source.h"

namespace laconic {

/// Training and validation images in one file, for disks that are slow at finding a million small ones. Its
/// index is kept in memory. What it says of itself is checked when it is opened, each image's checksum whenever it is
/// read.
///
///   0     "LACPACK\n" | version : u32 = 1 | 0 : u32                                      little-endian
///   16    the images' files, one after another
///   x     for each, training first:  offset : u64 | bytes : u32 | crc32 : u32 | label : u32 | bytes of its name : u32
///         their names, one after another
///         names of classes, a line each
///   -56   x : u64 | bytes of names : u64 | of classes : u64 | training images : u64 | validation images : u64 |
///         crc32 from x to here, of these 40 bytes too : u32 | version : u32 = 1 | "LACPACK\n"
///
/// throws DataError naming the file: no pack, of another version, cut (also while it is read), damaged
class ImagePack {
 public:
  explicit ImagePack(const std::string& path);
  static bool is_one(const std::string& path);  ///< true: its first bytes are a pack's

  const std::vector<std::string>& classes() const { return classes_; }
  std::shared_ptr<const ImageSource> train() const { return train_; }
  std::shared_ptr<const ImageSource> validation() const { return validation_; }  ///< null if there are none

 private:
  std::vector<std::string> classes_;
  std::shared_ptr<const ImageSource> train_, validation_;
};

struct PackOptions {
  int size = 0;  ///< pictures whose shorter side is longer are made so small, and stored as JPEG; 0: files as they are
  int quality = 92;  ///< the quality of that JPEG, 1 … 100
  int threads = 1;
};
struct PackReport {
  std::int64_t train = 0, validation = 0;  ///< images
  std::int64_t bytes_before = 0, bytes_after = 0;
};

/// Writes a pack, complete under its name or not at all. Files as they are have their headers checked, smaller ones are
/// decoded; a bad one is left out. `progress` is told from time to time how many are done.
/// Memory: 64 images a thread, and 24 bytes and its name for each. throws DataError
PackReport write_pack(const PhotoDataset& photos, const std::string& path, const PackOptions& options, BadFiles& bad,
                      const std::function<void(std::int64_t)>& progress);

}  // namespace laconic
