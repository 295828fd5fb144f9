#include "data/image_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "data/archive_file.h"
#include "data/input_file.h"

namespace laconic {
namespace {

using Archives = std::vector<std::shared_ptr<const Archive>>;

/// Where a file lies.
struct Place {
  std::uint32_t archive, file;
};

class ArchivedImages final : public ListedImages {
 public:
  explicit ArchivedImages(Archives archives) : archives_(std::move(archives)) {}
  void add(const Place& place, std::int32_t label) {
    places_.push_back(place);
    labels_.push_back(label);
  }

  std::string name(std::int64_t i) const override { return archive(i).full_name(place(i).file); }
  std::span<const std::uint8_t> read(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    archive(i).read(place(i).file, buffer);
    return buffer;
  }
  void add_to(Digest& digest) const override {
    std::string names;
    std::vector<std::uint64_t> ends, sizes;
    for (std::int64_t i = 0; i < size(); ++i) {
      names += archive(i).name(place(i).file);
      ends.push_back(names.size());
      sizes.push_back(archive(i).bytes(place(i).file));
    }
    digest.add(names.data(), names.size());
    digest.add(ends);
    digest.add(sizes);
    digest.add(labels_);
  }

 private:
  const Place& place(std::int64_t i) const { return places_[static_cast<std::size_t>(i)]; }
  const Archive& archive(std::int64_t i) const { return *archives_[place(i).archive]; }
  Archives archives_;
  std::vector<Place> places_;
};

/// Folders and the file's name.
using Parts = std::vector<std::string_view>;
Parts parts_of(std::string_view name) {
  Parts parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// One image in a folder of classes.
struct Classified {
  std::string_view name, file;  ///< name: the class's
  Place place;
  auto key() const { return std::tuple(name, file, place.archive); }
};

/// Folders in which the classes' lie, or train's and val's.
struct Root {
  std::size_t depth = 0;
  bool split = false;  ///< whether there is a train
};

/// Where a train is with a class in it, the outermost counts; else what all files share, but for a class and a name.
Root root_of(const std::vector<Parts>& files) {
  Root root;
  for (const Parts& parts : files)
    for (std::size_t d = 0; d + 3 <= parts.size(); ++d)
      if (d + 3 == parts.size() && parts[d] == "train" && (!root.split || d < root.depth)) root = {d, true};
  for (; !root.split; ++root.depth)
    for (const Parts& parts : files)
      if (parts.size() < root.depth + 3 || parts[root.depth] != files[0][root.depth]) return root;
  return root;
}

Listing listing_of(const std::string& where, const Archives& archives, std::vector<Classified> images) {
  std::ranges::sort(images, {}, &Classified::key);
  const auto files = std::make_shared<ArchivedImages>(archives);
  Listing listing{where, files, {}};
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Classified& image = images[i];
    require<DataError>(i == 0 || image.key() != images[i - 1].key(), archives[image.place.archive]->path(), " has ",
                       image.name, "/", image.file, " twice. Write it again.");
    if (listing.names.empty() || listing.names.back() != image.name) listing.names.emplace_back(image.name);
    files->add(image.place, static_cast<std::int32_t>(listing.names.size() - 1));
  }
  return listing;
}

/// The text of a small file.
std::string text_in(const Archive& archive, std::size_t file) {
  std::vector<std::uint8_t> bytes;
  archive.read(file, bytes);
  return {bytes.begin(), bytes.end()};
}

/// What synsets.txt or labels.txt in a folder says.
std::vector<std::string> classes_in(const Archives& archives, const std::string& folder) {
  for (const std::string& path : {folder + "synsets.txt", folder + "labels.txt"})
    for (const auto& archive : archives)
      for (std::size_t i = 0; i < archive->size(); ++i)
        if (archive->name(i) == path) return labels_in(text_in(*archive, i), archive->full_name(i));
  return {};
}

[[noreturn]] void refuse_all(const std::string& where, const Archives& archives) {
  for (const auto& archive : archives)
    for (std::size_t i = 0; i < archive->size(); ++i)
      if (archive->name(i).ends_with(".tar"))
        throw DataError(concat(archive->full_name(i), " is an archive in an archive. Unpack the outer one first."));
  throw DataError(where + " has no images (.jpg, .jpeg, .png, .ppm), in folders of classes or beside labels (.cls).");
}

ArchivedPhotos folders_in(const std::string& where, const Archives& archives) {
  std::vector<Parts> names;
  std::vector<Place> places;
  for (std::size_t a = 0; a < archives.size(); ++a)
    for (std::size_t i = 0; i < archives[a]->size(); ++i) {
      if (!is_image(archives[a]->name(i))) continue;
      Parts parts = parts_of(archives[a]->name(i));
      if (std::ranges::any_of(parts, [](std::string_view part) { return part.starts_with('.'); })) continue;
      names.push_back(std::move(parts));
      places.push_back({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(i)});
    }
  if (names.empty()) refuse_all(where, archives);
  const auto [depth, split] = root_of(names);
  const auto part_of = [depth = depth](const Parts& parts) { return parts.size() > depth ? parts[depth] : ""; };
  const Parts& first = split ? *std::ranges::find(names, "train", part_of) : names[0];
  std::vector<Classified> train, validation;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Parts& parts = names[i];
    const bool tests = split && part_of(parts) == "val";
    if (split && !tests && part_of(parts) != "train") continue;
    require<DataError>(
        parts.size() == depth + 2 + split && std::equal(first.begin(), first.begin() + depth, parts.begin()),
        archives[places[i].archive]->full_name(places[i].file),
        " lies in no folder of a class: CLASS/FILE, train/CLASS/FILE and val/CLASS/FILE are read, and "
        "images beside their labels (.cls). Unpack it, and give a list.");
    (tests ? validation : train).push_back({parts[parts.size() - 2], parts.back(), places[i]});
  }
  ArchivedPhotos photos{listing_of(where, archives, std::move(train)), std::nullopt, {}};
  if (!validation.empty()) photos.validation = listing_of(where, archives, std::move(validation));
  std::string root;
  for (std::size_t d = 0; d < depth; ++d) root += std::string(first[d]) + "/";
  photos.classes = classes_in(archives, root);
  return photos;
}

/// All up to the first dot of a file's name, and what stands behind it; "" where there is no dot, or nothing before it.
std::pair<std::string_view, std::string_view> key_and_field(std::string_view name) {
  const std::size_t file = name.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t dot = name.find('.', file);
  if (dot == std::string_view::npos || dot == file) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::int32_t label_in(const Archive& archive, std::size_t file) {
  constexpr std::uint64_t kMostBytes = 32;
  std::string text = archive.bytes(file) <= kMostBytes ? text_in(archive, file) : "";
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_first_not_of(" \t"));
  const auto label = number_from<std::int32_t>(text);
  require<DataError>(label && *label >= 0 && *label < kMostClasses, archive.full_name(file),
                     " is no label. Write the class's number in digits, 0 to ", kMostClasses - 1, ".");
  return *label;
}

Listing samples_in(const std::string& where, const Archives& archives) {
  const auto files = std::make_shared<ArchivedImages>(archives);
  for (std::size_t a = 0; a < archives.size(); ++a) {
    const Archive& archive = *archives[a];
    std::vector<std::size_t> with_field;  // the others, as those of macOS between two of a sample, do not count
    for (std::size_t i = 0; i < archive.size(); ++i)
      if (!key_and_field(archive.name(i)).second.empty()) with_field.push_back(i);
    std::set<std::string_view> keys;
    for (auto at = with_field.begin(); at != with_field.end();) {
      const std::string_view key = key_and_field(archive.name(*at)).first;
      std::optional<std::size_t> image, label;
      for (; at != with_field.end() && key_and_field(archive.name(*at)).first == key; ++at) {
        const std::size_t i = *at;
        const std::string field(key_and_field(archive.name(i)).second);
        const bool labels = field == "cls";
        if (!labels && (field.find('.') != std::string::npos || !is_image("x." + field))) continue;
        auto& found = labels ? label : image;
        require<DataError>(!found, archive.full_name(i), " is the second ", labels ? "label" : "image",
                           " of its sample. Write one.");
        found = i;
      }
      if (!image && !label) continue;
      require<DataError>(image && label, archive.full_name(image ? *image : *label), " has no ",
                         image ? "label (.cls)" : "image (.jpg, .jpeg, .png, .ppm)",
                         " beside it. Write what belongs to a sample one behind the other.");
      require<DataError>(keys.insert(key).second, archive.full_name(*image), " is there twice. Write it again.");
      files->add({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(*image)}, label_in(archive, *label));
    }
  }
  if (files->size() == 0) refuse_all(where, archives);
  return {where, files, {}};
}

/// Throws DataError where images have a text or JSON of the same name beside them and no label, as in WebDataset's
/// archives of captions.
void require_labels(const Archives& archives) {
  for (const auto& archive : archives) {
    std::set<std::string_view> images;
    std::optional<std::size_t> other;
    for (std::size_t i = 0; i < archive->size(); ++i)
      if (key_and_field(archive->name(i)).second == "cls") return;
    for (std::size_t i = 0; i < archive->size(); ++i)
      if (is_image(archive->name(i))) images.insert(key_and_field(archive->name(i)).first);
    for (std::size_t i = 0; i < archive->size() && !other; ++i)
      if (const auto [key, field] = key_and_field(archive->name(i)); field == "json" || field == "txt")
        if (images.contains(key)) other = i;
    require<DataError>(
        !other, other ? archive->full_name(*other) : "",
        " lies beside an image that has no label: labels are read from KEY.cls alone, the class's number "
        "in digits. Write one for each image.");
  }
}

}  // namespace

ArchivedPhotos open_archives(const std::vector<std::string>& paths) {
  constexpr std::size_t kMostOpen = 256;  // a process may have a thousand descriptors
  Archives archives;
  std::uint64_t left = Archive::kMostUnpacked;
  for (const std::string& path : paths) {
    archives.push_back(std::make_shared<const Archive>(path, paths.size() <= kMostOpen, left));
    left -= archives.back()->bytes_in_memory();
  }
  require_labels(archives);
  const std::string where = paths.size() == 1 ? paths[0] : concat(paths[0], " to ", paths.back());
  for (const auto& archive : archives)
    for (std::size_t i = 0; i < archive->size(); ++i)
      if (key_and_field(archive->name(i)).second == "cls")
        return {samples_in(where, archives), std::nullopt, classes_in(archives, "")};
  return folders_in(where, archives);
}

std::vector<std::string> shards_of(const std::string& path) {
  constexpr std::uint64_t kMostShards = 100'000;
  std::error_code ignored;
  const auto begin = path.find('{'), dots = path.find("..", begin), end = path.find('}', begin);
  if (std::filesystem::exists(path, ignored) || begin == std::string::npos || dots > end || end == std::string::npos)
    return {path};
  const std::string first = path.substr(begin + 1, dots - begin - 1), last = path.substr(dots + 2, end - dots - 2);
  const auto from = number_from<std::uint64_t>(first), to = number_from<std::uint64_t>(last);
  if (!from || !to || *from > *to) return {path};
  const bool padded = (first.size() > 1 && first[0] == '0') || (last.size() > 1 && last[0] == '0');
  const std::size_t width = padded ? std::max(first.size(), last.size()) : 0;
  const std::vector<std::string> rests = shards_of(path.substr(end + 1));
  require<UsageError>(*to - *from < kMostShards / rests.size(), path, " stands for more than ", grouped(kMostShards),
                      " files (`data`): give fewer");
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i <= *to - *from; ++i)
    for (const std::string& rest : rests)
      paths.push_back(fmt::format("{}{:0{}}{}", path.substr(0, begin), *from + i, width, rest));
  return paths;
}

}  // namespace laconic
