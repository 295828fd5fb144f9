#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/input_file.h"

namespace laconic {

/// Labelled files of images by number: a folder, a list, a pack, archives, generated ones. Never changed once opened, so
/// that any number of workers and data threads share one.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int32_t label(std::int64_t i) const = 0;
  virtual std::string name(std::int64_t i) const = 0;  ///< its path, or its pack's and its own, for messages
  /// The file's bytes, in `buffer` or in memory of the source. throws DataError: it cannot be read, or is damaged
  virtual std::span<const std::uint8_t> read(std::int64_t i, std::vector<std::uint8_t>& buffer) const = 0;
  /// What tells it from other data: names, labels and order; of a pack checksums.
  virtual void add_to(Digest& digest) const = 0;
  /// What tells that a file was replaced by one of another size. Asks for the size of each.
  virtual void add_sizes_to(Digest&) const {}
};

/// Training and validation images of one task.
struct PhotoDataset {
  std::string name;                                      ///< "imagenet-sample", for messages
  std::vector<std::string> classes;                      ///< the name of label i: "n01440764 tench, Tinca tinca"
  std::shared_ptr<const ImageSource> train, validation;  ///< validation: null if `data` names none

  std::uint64_t fingerprint() const;  ///< a number as fingerprint(ImageDataset); ranks compare it
  std::uint64_t sizes() const;        ///< a number of all files' sizes; ranks compare it. Cost: 2 us a file
};

/// Opens what `data` names:
///
///   DIR            with train and val in it, each a folder of classes, a list (train.txt), a pack (train.pack) or an
///                  archive (train.tar, train.zip)
///   TRAIN[,VAL]    each one of these on its own; archives in several parts as "shards/{000..009}.tar"
///   FILE.pack      as `laconic pack` writes it, of both
///   ARCHIVE        a tar, tar.gz or zip, of either or both (data/image_archive.h says of what kinds)
///   synthetic[:TRAIN,VAL[,CLASSES]]   generated, 10 classes of 64 x 64 pixels
///
/// A folder of classes has a folder of files (.jpg, .jpeg, .png, .ppm, in any case) for each. A list has lines
/// `path label` with the label's number from 0, or `path`, where the label is the folder that the file lies in; paths
/// count from the list's folder. Files are ordered by the bytes of their paths, lists as they stand: the same on every
/// machine, whatever its locale.
///
/// Names of classes come from `labels`, or from synsets.txt or labels.txt beside the data, or in its archive: a line
/// each, `n01440764 tench, Tinca tinca` or just a name; a folder is the class whose line, or whose line's first word, is
/// its name.
/// Without such a file classes are the training set's folders in order, or numbers up to the largest.
/// Cost: reading the folders; 50 bytes of memory a file.
/// throws DataError: nothing there, no images, a label that no class has (names the file and line)
PhotoDataset open_photos(const std::string& data, const std::string& labels = "");

/// The names of classes in such a file. throws DataError: empty or unreadable
std::vector<std::string> read_labels(const std::string& path);
/// synsets.txt or labels.txt in a folder, "" if there is neither.
std::string labels_beside(const std::string& folder);

/// Files that could not be decoded, shared by the workers of a process. The first `most` are passed over, each with a
/// warning; one more ends the run with its own sentence.
class BadFiles {
 public:
  BadFiles(int most, std::function<void(const std::string&)> warn) : most_(most), warn_(std::move(warn)) {}
  /// throws DataError with `what` once there are more than `most` names
  void add(const std::string& name, const std::string& what);

 private:
  const int most_;
  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::set<std::string> names_;
};

}  // namespace laconic
