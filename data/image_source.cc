#include "data/image_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "data/image_codec.h"
#include "data/image_pack.h"
#include "data/synthetic.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kMostClasses = 100'000;  // a list may leave most of them out, and each gets a name

/// A million paths in one piece of memory.
class Files final : public ImageSource {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}
  void add(const std::string& path, std::int32_t label) {
    paths_ += path;
    ends_.push_back(paths_.size());
    labels_.push_back(label);
  }
  std::vector<std::int32_t>& labels() { return labels_; }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int32_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  std::string name(std::int64_t i) const override {
    const auto at = static_cast<std::size_t>(i);
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return (fs::path(folder_) / paths_.substr(begin, ends_[at] - begin)).string();
  }
  std::span<const std::uint8_t> read(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    read_image_file(name(i), buffer);
    return buffer;
  }
  void add_to(Digest& digest) const override {
    digest.add(paths_.data(), paths_.size());
    digest.add(ends_);
    digest.add(labels_);
  }
  void add_sizes_to(Digest& digest) const override {
    std::vector<std::uint64_t> sizes;  // no times: copies on other machines have others
    for (std::int64_t i = 0; i < size(); ++i) {
      struct statx status {};
      // What the system knows without asking a file server again; nothing of a file that is not there.
      ::statx(AT_FDCWD, name(i).c_str(), AT_STATX_DONT_SYNC, STATX_SIZE, &status);
      sizes.push_back(status.stx_size);
    }
    digest.add(sizes);
  }

 private:
  std::string folder_, paths_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::int32_t> labels_;
};

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

/// One split as it was found: labels are numbers of classes, or still numbers of names.
struct Listing {
  std::string where;
  std::shared_ptr<Files> files;
  std::vector<std::string> names;  ///< names of folders; empty: labels are numbers already
};

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".ppm";
}

/// Names of what lies in a folder, by their bytes; hidden ones left out.
std::vector<std::string> names_in(const std::string& folder, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && (folders ? at->is_directory(ignored) : is_image(at->path()) && !at->is_directory(ignored)))
      names.push_back(name);
  }
  require<DataError>(!error, folder, " cannot be read: ", error.message(), ". Check the path and its permissions.");
  std::sort(names.begin(), names.end());
  return names;
}

Listing folder_of_classes(const std::string& folder) {
  Listing listing{folder, std::make_shared<Files>(folder), names_in(folder, true)};
  for (std::size_t c = 0; c < listing.names.size(); ++c)
    for (const std::string& file : names_in(folder + "/" + listing.names[c], false))
      listing.files->add(listing.names[c] + "/" + file, static_cast<std::int32_t>(c));
  require<DataError>(
      listing.files->size() > 0, folder,
      " has no folders with images (.jpg, .jpeg, .png, .ppm), nor train (a folder of classes), train.txt "
      "(a list) or train.pack (`data`): give a folder that has; or synthetic, which is generated");
  return listing;
}

std::vector<std::string> lines_of(const std::string& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  std::istringstream text(read_text(path, kMostBytes + 4));
  require<DataError>(text.view().size() <= kMostBytes, path, " has more than ", grouped(kMostBytes),
                     " bytes. Pack the images (laconic pack), or give a shorter list.");
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line); lines.push_back(std::move(line))) {
    require<DataError>(line.find('\0') == std::string::npos, path, " has a byte 0 in line ", lines.size() + 1,
                       ". Give a text file, or correct the line.");
    line.resize(line.find_last_not_of(" \t\r") + 1);
  }
  return lines;
}

/// The number behind the last blank of a line, and the line without it.
std::optional<std::int32_t> take_number(std::string& line) {
  const auto blank = line.find_last_of(" \t");
  if (blank == std::string::npos) return std::nullopt;
  const std::string digits = line.substr(blank + 1);
  if (digits.size() > 7 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  line.resize(line.find_last_not_of(" \t", blank) + 1);
  return std::stoi(digits);
}

Listing list_of_files(const std::string& path) {
  Listing listing{path, std::make_shared<Files>(fs::path(path).parent_path().string()), {}};
  std::map<std::string, std::int32_t> numbers;
  std::optional<bool> numbered;
  std::size_t number = 0;
  for (std::string line : lines_of(path)) {
    ++number;
    if (line.empty()) continue;
    std::optional<std::int32_t> label = take_number(line);
    require<DataError>(!numbered || *numbered == label.has_value(), path, " has a line ", number,
                       label ? " with" : " without", " a label, unlike those before. Give all of them one, or none.");
    numbered = label.has_value();
    require<DataError>(label.value_or(0) < kMostClasses, path, " has label ", label.value_or(0), " in line ", number,
                       ", and at most ", kMostClasses, " classes are possible. Correct the line.");
    if (!label) {
      const std::string folder = fs::path(line).parent_path().filename().string();
      require<DataError>(!folder.empty(), path, " has neither a label nor a folder in line ", number, ", '", line,
                         "'. Write 'path label', or the path with its class's folder.");
      label = numbers.emplace(folder, static_cast<std::int32_t>(numbers.size())).first->second;
    }
    listing.files->add(line, *label);
  }
  require<DataError>(listing.files->size() > 0, path, " names no files. Write a line 'path label' for each.");
  listing.names.resize(numbers.size());
  for (const auto& [name, i] : numbers) listing.names[static_cast<std::size_t>(i)] = name;
  return listing;
}

/// What one path holds: files whose classes are not known yet, or a pack.
struct Part {
  std::optional<Listing> listing;
  std::shared_ptr<const ImagePack> pack;
};

Part open_part(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {folder_of_classes(path), nullptr};
  require<DataError>(
      fs::is_regular_file(path, ignored), path,
      " is no file or folder (`data`): give a folder, a list or a pack; or synthetic, which is generated");
  if (ImagePack::is_one(path)) return {std::nullopt, std::make_shared<const ImagePack>(path)};
  return {list_of_files(path), nullptr};
}

std::string part_in(const std::string& folder, const char* name) {
  std::error_code ignored;
  for (const char* suffix : {"", ".txt", ".pack"}) {
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

std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> names = lines_of(path);
  while (!names.empty() && names.back().empty()) names.pop_back();
  require<DataError>(!names.empty(), path, " has no names of classes. Write one a line.");
  return names;
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

  PhotoDataset photos;
  named = fs::absolute(named).lexically_normal();
  photos.name = (named.has_filename() ? named : named.parent_path()).filename().string();
  std::vector<Listing*> listings;
  for (Part* part : {&first, &second})
    if (part->listing) listings.push_back(&*part->listing);
  photos.classes = !labels.empty() ? read_labels(labels)
                   : first.pack    ? first.pack->classes()
                                   : classes_of(listings, labels_beside(folder.string()));
  for (Listing* l : listings) number_labels(*l, photos.classes);
  photos.train = first.pack ? first.pack->train() : first.listing->files;
  if (second.pack)
    photos.validation = validation_of(*second.pack, validation, first.pack ? first.pack->classes() : photos.classes);
  else if (second.listing)
    photos.validation = second.listing->files;
  else if (first.pack)
    photos.validation = first.pack->validation();
  for (const auto& [source, path] : {std::pair{photos.train, train}, {photos.validation, validation}})
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
