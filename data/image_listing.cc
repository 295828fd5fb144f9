#include "data/image_listing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "data/image_codec.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

/// A million paths in one piece of memory.
class Files final : public ListedImages {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}
  void add(const std::string& path, std::int32_t label) {
    paths_ += path;
    ends_.push_back(paths_.size());
    labels_.push_back(label);
  }
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
};

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

std::vector<std::string> lines_in(std::string_view text, const std::string& path) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    require<DataError>(line.find('\0') == std::string::npos, path, " has a byte 0 in line ", lines.size() + 1,
                       ". Give a text file, or correct the line.");
    line.resize(line.find_last_not_of(" \t\r") + 1);
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

std::string text_of_lines(const std::string& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  std::string text = read_text(path, kMostBytes + 4);
  require<DataError>(text.size() <= kMostBytes, path, " has more than ", grouped(kMostBytes),
                     " bytes. Pack the images (laconic pack), or give a shorter list.");
  return text;
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

}  // namespace

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".ppm";
}

Listing folder_of_classes(const std::string& folder) {
  const auto files = std::make_shared<Files>(folder);
  Listing listing{folder, files, names_in(folder, true)};
  for (std::size_t c = 0; c < listing.names.size(); ++c)
    for (const std::string& file : names_in(folder + "/" + listing.names[c], false))
      files->add(listing.names[c] + "/" + file, static_cast<std::int32_t>(c));
  require<DataError>(
      listing.files->size() > 0, folder,
      " has no folders with images (.jpg, .jpeg, .png, .ppm), nor train (a folder of classes), train.txt (a list), "
      "train.pack, train.tar or train.zip (`data`): give a folder that has; or synthetic, which is generated");
  return listing;
}

Listing list_of_files(const std::string& path) {
  const auto files = std::make_shared<Files>(fs::path(path).parent_path().string());
  Listing listing{path, files, {}};
  std::map<std::string, std::int32_t> numbers;
  std::optional<bool> numbered;
  std::size_t number = 0;
  for (std::string line : lines_in(text_of_lines(path), path)) {
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
    files->add(line, *label);
  }
  require<DataError>(listing.files->size() > 0, path, " names no files. Write a line 'path label' for each.");
  listing.names.resize(numbers.size());
  for (const auto& [name, i] : numbers) listing.names[static_cast<std::size_t>(i)] = name;
  return listing;
}

std::vector<std::string> labels_in(std::string text, const std::string& path) {
  drop_byte_order_mark(text);
  std::vector<std::string> names = lines_in(text, path);
  while (!names.empty() && names.back().empty()) names.pop_back();
  require<DataError>(!names.empty(), path, " has no names of classes. Write one a line.");
  return names;
}

std::vector<std::string> read_labels(const std::string& path) { return labels_in(text_of_lines(path), path); }

}  // namespace laconic
