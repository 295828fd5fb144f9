#include "data/image_source.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "data/image_archive.h"
#include "data/image_listing.h"
#include "data/image_pack.h"
#include "data/synthetic.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

/// Images of a generated data set, as PPM files.
class Generated final : public ImageSource {
 public:
  Generated(std::shared_ptr<const ImageDataset> data, const ImageSplit& split)
      : data_(std::move(data)), split_(split), header_(concat("P6\n", data_->width, " ", data_->height, "\n255\n")) {}

  std::int64_t size() const override { return split_.size(); }
  std::int32_t label(std::int64_t i) const override { return split_.labels[static_cast<std::size_t>(i)]; }
  std::string name(std::int64_t i) const override { return concat("generated image ", i); }
  std::span<const std::uint8_t> read(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    const std::int64_t plane = std::int64_t{data_->height} * data_->width;
    const std::uint8_t* from = split_.pixels.data() + i * data_->image_bytes();
    buffer.assign(header_.begin(), header_.end());
    for (std::int64_t p = 0; p < plane; ++p)
      for (int c = 0; c < 3; ++c) buffer.push_back(from[c * plane + p]);
    return buffer;
  }
  void add_to(Digest& digest) const override {
    digest.add(split_.pixels);
    digest.add(split_.labels);
  }

 private:
  std::shared_ptr<const ImageDataset> data_;
  const ImageSplit& split_;
  std::string header_;
};

/// What one path holds: files whose classes are not known yet, or a pack.
struct Part {
  std::optional<Listing> listing, validation{};  ///< validation: of an archive of both
  std::shared_ptr<const ImagePack> pack{};
  std::vector<std::string> classes{};  ///< as a pack or an archive names them itself
};

Part open_part(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {folder_of_classes(path)};
  const std::vector<std::string> shards = shards_of(path);
  const bool several = shards != std::vector{path};
  require<DataError>(
      several || fs::is_regular_file(path, ignored), path,
      " is no file or folder (`data`): give a folder, a list, a pack or an archive; or synthetic, which is generated");
  if (!several && ImagePack::is_one(path)) {
    const auto pack = std::make_shared<const ImagePack>(path);
    return {std::nullopt, std::nullopt, pack, pack->classes()};
  }
  if (!several && !is_archive(path)) return {list_of_files(path)};
  ArchivedPhotos photos = open_archives(shards);
  return {std::move(photos.train), std::move(photos.validation), nullptr, std::move(photos.classes)};
}

std::string part_in(const std::string& folder, const char* name) {
  std::error_code ignored;
  for (const char* suffix : {"", ".txt", ".pack", ".tar", ".zip"}) {
    const std::string path = (fs::path(folder) / name).string() + suffix;
    if (*suffix ? fs::is_regular_file(path, ignored) : fs::is_directory(path, ignored)) return path;
  }
  return "";
}

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

/// The class that each name is, or whose first word it is; -1: none, or several have that word.
std::vector<std::int32_t> numbers_of(const std::vector<std::string>& names, const std::vector<std::string>& classes) {
  std::map<std::string, std::int32_t> whole, first_words;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto number = static_cast<std::int32_t>(c);
    whole.emplace(classes[c], number);
    const auto [word, is_new] = first_words.emplace(first_word(classes[c]), number);
    if (!is_new) word->second = -1;
  }
  std::vector<std::int32_t> numbers;
  for (const std::string& name : names) {
    const auto a = whole.find(name), b = first_words.find(name);
    numbers.push_back(a != whole.end() ? a->second : b != first_words.end() ? b->second : -1);
  }
  return numbers;
}

[[noreturn]] void refuse_class(const std::string& where, const std::string& name, std::size_t classes) {
  throw DataError(concat(where, " has a folder ", name, " that is none of the ", classes,
                         " classes. Take it out, or give all names of classes with `labels` FILE."));
}

/// Puts numbers of classes in the place of numbers of names.
void number_labels(Listing& listing, const std::vector<std::string>& classes) {
  if (listing.names.empty()) return;
  const std::vector<std::int32_t> number_of = numbers_of(listing.names, classes);
  for (std::size_t i = 0; i < number_of.size(); ++i)
    if (number_of[i] < 0) refuse_class(listing.where, listing.names[i], classes.size());
  for (std::int32_t& label : listing.files->labels()) label = number_of[static_cast<std::size_t>(label)];
}

/// The images of a pack that numbers its classes in its own way.
class Renumbered final : public ImageSource {
 public:
  Renumbered(std::shared_ptr<const ImageSource> images, std::vector<std::int32_t> number_of)
      : images_(std::move(images)), number_of_(std::move(number_of)) {}
  std::int64_t size() const override { return images_->size(); }
  std::int32_t label(std::int64_t i) const override { return number_of_[static_cast<std::size_t>(images_->label(i))]; }
  std::string name(std::int64_t i) const override { return images_->name(i); }
  std::span<const std::uint8_t> read(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    return images_->read(i, buffer);
  }
  void add_to(Digest& digest) const override {
    images_->add_to(digest);
    digest.add(number_of_.data(), number_of_.size() * sizeof number_of_[0]);
  }
  void add_sizes_to(Digest& digest) const override { images_->add_sizes_to(digest); }

 private:
  const std::shared_ptr<const ImageSource> images_;
  const std::vector<std::int32_t> number_of_;
};

/// The validation images of a pack, or all of one that has none, by these classes' numbers. A class of the pack is the
/// one with its name, else with its first word. A pack whose classes are called by their numbers keeps them.
std::shared_ptr<const ImageSource> validation_of(const ImagePack& pack, const std::string& where,
                                                 const std::vector<std::string>& classes) {
  const std::shared_ptr<const ImageSource> images = pack.validation() ? pack.validation() : pack.train();
  const std::vector<std::string>& names = pack.classes();
  bool numbered = true;
  for (std::size_t c = 0; c < names.size(); ++c) numbered &= names[c] == std::to_string(c);
  if (numbered || names == classes) return images;
  std::vector<std::string> words;
  std::ranges::transform(names, std::back_inserter(words), first_word);
  std::vector<std::int32_t> number_of = numbers_of(names, classes);
  const std::vector<std::int32_t> by_word = numbers_of(words, classes);
  for (std::size_t c = 0; c < names.size(); ++c)
    if (number_of[c] < 0 && std::ranges::count(words, words[c]) == 1) number_of[c] = by_word[c];
  for (std::int64_t i = 0; i < images->size(); ++i)
    if (const auto label = static_cast<std::size_t>(images->label(i)); number_of[label] < 0)
      refuse_class(where, names[label], classes.size());
  return std::make_shared<const Renumbered>(images, number_of);
}

std::vector<std::string> classes_of(const std::vector<Listing*>& listings, const std::string& labels) {
  if (!labels.empty()) return read_labels(labels);
  std::vector<std::string> classes = listings[0]->names;  // the seed of training
  std::sort(classes.begin(), classes.end());
  if (!classes.empty()) return classes;
  std::int32_t most = 0;
  for (const Listing* l : listings)
    for (std::int64_t i = 0; i < l->files->size(); ++i) most = std::max(most, l->files->label(i));
  for (std::int32_t c = 0; c <= most; ++c) classes.push_back(std::to_string(c));
  return classes;
}

PhotoDataset generated(const std::string& data) {
  const SyntheticOptions sizes = synthetic_sizes(data, {2000, 500}, true);
  const auto images = std::make_shared<const ImageDataset>(synthetic_photos(sizes));
  PhotoDataset photos{.name = images->name,
                      .classes = {},
                      .train = std::make_shared<Generated>(images, images->train),
                      .validation = std::make_shared<Generated>(images, images->test)};
  for (int c = 0; c < images->classes; ++c) photos.classes.push_back(concat("pattern ", c));
  return photos;
}

}  // namespace

std::uint64_t PhotoDataset::sizes() const {
  Digest digest;
  for (const auto& source : {train, validation})
    if (source) source->add_sizes_to(digest);
  return digest.value();
}

std::uint64_t PhotoDataset::fingerprint() const {
  Digest digest;
  for (const std::string& name : classes) digest.add(name.data(), name.size());
  for (const auto& source : {train, validation})
    if (source) source->add_to(digest);
  return digest.value();
}

std::string labels_beside(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : {"synsets.txt", "labels.txt"})
    if (const fs::path path = fs::path(folder) / name; fs::is_regular_file(path, ignored)) return path.string();
  return "";
}

PhotoDataset open_photos(const std::string& data, const std::string& labels) {
  if (is_synthetic(data)) {
    require<UsageError>(labels.empty(), "generated images have classes of their own (`labels`): leave it out");
    return generated(data);
  }
  std::error_code ignored;
  std::string train = data, validation;
  fs::path folder = fs::path(data).parent_path(), named = data;  // of the classes' names; the data's name
  if (fs::is_directory(data, ignored)) {
    folder = data;
    train = part_in(data, "train"), validation = part_in(data, "val");
    if (train.empty()) train = data;
  } else if (const auto comma = data.find(','); comma != std::string::npos && !fs::exists(data, ignored)) {
    train = data.substr(0, comma), validation = data.substr(comma + 1);
    while (train.size() > 1 && train.ends_with('/')) train.pop_back();  // its parent is wanted
    folder = fs::path(train).parent_path();
    named = fs::absolute(train).parent_path();
  }
  Part first = open_part(train), second = validation.empty() ? Part{} : open_part(validation);
  if (auto& tests = validation.empty() ? first.validation : second.validation) second.listing = std::move(tests);

  PhotoDataset photos;
  named = fs::absolute(named).lexically_normal();
  photos.name = (named.has_filename() ? named : named.parent_path()).filename().string();
  std::vector<Listing*> listings;
  for (Part* part : {&first, &second})
    if (part->listing) listings.push_back(&*part->listing);
  photos.classes = !labels.empty()          ? read_labels(labels)
                   : !first.classes.empty() ? first.classes
                                            : classes_of(listings, labels_beside(folder.string()));
  for (Listing* l : listings) number_labels(*l, photos.classes);
  photos.train = first.pack ? first.pack->train() : first.listing->files;
  if (second.pack)
    photos.validation = validation_of(*second.pack, validation, first.pack ? first.pack->classes() : photos.classes);
  else if (second.listing)
    photos.validation = second.listing->files;
  else if (first.pack)
    photos.validation = first.pack->validation();
  for (const auto& [source, path] :
       {std::pair{photos.train, train}, {photos.validation, validation.empty() ? train : validation}})
    for (std::int64_t i = 0; source && i < source->size(); ++i)
      require<DataError>(static_cast<std::size_t>(source->label(i)) < photos.classes.size(), path, " has label ",
                         source->label(i), " for ", source->name(i), ", but there are ", photos.classes.size(),
                         " classes. Correct the data, or give all names of classes with `labels` FILE.");
  return photos;
}

void BadFiles::add(const std::string& name, const std::string& what) {
  std::lock_guard lock(mutex_);
  if (names_.count(name) != 0) return;
  if (most_ == 0) throw DataError(what + " Or pass over such files: `max-bad` 10.");
  require<DataError>(static_cast<int>(names_.size()) < most_, what, " ", most_,
                     " before it could not be read either (`max-bad`).");
  names_.insert(name);
  warn_(what);
}

}  // namespace laconic
