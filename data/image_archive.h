#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/image_listing.h"

namespace laconic {

/// The photographs of archives, taken together.
struct ArchivedPhotos {
  Listing train;
  std::optional<Listing> validation;
  std::vector<std::string> classes;  ///< what a synsets.txt or labels.txt among them says, or empty
};

/// Opens archives (data/archive_file.h), of one of these kinds:
///
///   train/CLASS/FILE, val/CLASS/FILE   a folder of classes each; what lies beside them does not count
///   CLASS/FILE                         a folder of classes; both may lie in folders more, which all files share
///   KEY.jpg, KEY.cls                   WebDataset: neighbours of one KEY (all up to the first dot) are a sample, the
///                                      label in digits; also .jpeg, .png, .ppm; other files do not count
///
/// Files of classes are ordered as in folders, samples as they stand. Names that begin with a dot do not count.
/// source: the WebDataset format, https://github.com/webdataset/webdataset
/// throws DataError: as Archive, or a file that has no class, a sample that has no label or no image, the same file
/// twice
ArchivedPhotos open_archives(const std::vector<std::string>& paths);

/// The paths that "shards/{000..009}.tar" stands for, as a shell would say. One that has no such numbers in it, or is
/// there, stands for itself.
/// throws UsageError: more than 100,000
std::vector<std::string> shards_of(const std::string& path);

}  // namespace laconic
