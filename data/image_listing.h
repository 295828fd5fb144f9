#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/image_source.h"

namespace laconic {

inline constexpr std::int32_t kMostClasses = 100'000;  ///< data may leave most of them out, and each gets a name

/// Images whose labels are still to become numbers of classes.
class ListedImages : public ImageSource {
 public:
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int32_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  std::vector<std::int32_t>& labels() { return labels_; }

 protected:
  std::vector<std::int32_t> labels_;
};

/// One split as it was found: labels are numbers of classes, or still numbers of names.
struct Listing {
  std::string where;
  std::shared_ptr<ListedImages> files;
  std::vector<std::string> names;  ///< names of folders; empty: labels are numbers already
};

/// The files of a folder of classes, ordered by the bytes of their paths. throws DataError: none, or unreadable
Listing folder_of_classes(const std::string& folder);
/// The files that a list names (open_photos says how), as they stand. throws DataError naming the line
Listing list_of_files(const std::string& path);

/// Whether a file counts as an image, by its name.
bool is_image(const std::filesystem::path& path);
/// The names of classes in the text of such a file. throws DataError: empty, or a byte 0
std::vector<std::string> labels_in(std::string text, const std::string& path);

}  // namespace laconic
