#include "data/text_parts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/base/error.h"

namespace laconic {
namespace fs = std::filesystem;
namespace {

using Words = std::vector<std::string>;

Words words_of_part(std::size_t part) {
  return part == 1 ? Words{"valid", "val", "validation"} : Words{kPartNames[part]};
}

/// The ends of names, those first that are preferred.
std::vector<Words> ends_of(PartsHold hold) {
  if (hold == PartsHold::numbers) return {{"bin", "npy"}};
  return {{"txt", "tokens"}, {"raw"}};
}

bool has_name(std::string name, const std::string& word, const Words& ends, PartsHold hold) {
  const bool text = hold == PartsHold::text;
  if (text && name.ends_with(".gz")) name.resize(name.size() - 3);
  const std::string_view separators = text ? "." : "._-";
  const std::size_t dot = name.rfind('.');  // what is behind it is an end too, even where it is nothing
  if (dot == std::string::npos || std::ranges::find(ends, name.substr(dot + 1)) == ends.end()) return false;
  for (std::size_t begin = 0; begin <= dot;) {
    const std::size_t end = std::min(name.find_first_of(separators, begin), dot);
    if (name.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

Words part_names_in(const std::string& folder) {
  Words names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) names.push_back(it->path().filename().string());
  }
  require<DataError>(!error, folder, " cannot be read: ", error.message(), ". Check its permissions (`data`).");
  std::sort(names.begin(), names.end());
  return names;
}

/// The names that could be a part's, of the words and ends that are preferred among those that are there.
Words candidates(const Words& names, std::size_t part, PartsHold hold) {
  const Words words = words_of_part(part);
  const auto named = [&](auto first, auto last, const Words& ends) {
    Words found;
    for (const std::string& name : names)
      if (std::any_of(first, last, [&](const std::string& word) { return has_name(name, word, ends, hold); }))
        found.push_back(name);
    return found;
  };
  for (const auto& [first, last] :
       {std::pair(words.begin(), words.begin() + 1), std::pair(words.begin() + 1, words.end())})
    for (const Words& ends : ends_of(hold))
      if (Words found = named(first, last, ends); !found.empty()) return found;
  return {};
}

std::string file_of_part(const std::string& folder, const Words& names, std::size_t part, PartsHold hold) {
  const bool text = hold == PartsHold::text;
  const std::string word = kPartNames[part];
  Words found = candidates(names, part, hold);
  // What was unpacked beside its archive is the same file.
  if (found.size() == 2 && found[1] == found[0] + ".gz") found.pop_back();
  if (found.empty() && !text && word == "test") return "";
  require<DataError>(!found.empty() || !text, folder, " has no ", word, " text: none of its files is named like ", word,
                     ".txt, x.", word, ".txt, x.", word, ".tokens or x.", word,
                     ".raw, plain or .gz. Name one so, or give one text file (`data`).");
  require<DataError>(!found.empty(), folder, " has no ", word, " tokens: none of its files is named like ", word,
                     ".bin, x_", word, ".bin or ", word, ".npy. Name one so, or give one such file (`data`).");
  require<DataError>(found.size() == 1, folder, " has two files that could be the ", word,
                     text ? " text, " : " tokens, ", found[0], " and ", found.size() > 1 ? found[1] : "",
                     ". Keep one of them there (`data`).");
  return (fs::path(folder) / found[0]).string();
}

}  // namespace

std::array<std::string, 3> part_files(const std::string& folder, PartsHold hold) {
  const Words names = part_names_in(folder);
  std::array<std::string, 3> files;
  for (std::size_t part = 0; part < files.size(); ++part) files[part] = file_of_part(folder, names, part, hold);
  for (std::size_t part = 0; part < files.size(); ++part)
    require<DataError>(files[part] != files[(part + 1) % files.size()], files[part],
                       " has the names of two parts. Rename it (`data`).");
  return files;
}

bool has_train_part(const std::string& folder, PartsHold hold) {
  return !candidates(part_names_in(folder), 0, hold).empty();
}

}  // namespace laconic
