#include "data/text.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "data/digest.h"
#include "data/input_file.h"

namespace laconic {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestWord = 4096;  // bytes; longer ones are no words, and this file is no text
constexpr std::int64_t kFewestLines = 20;   // of one file that is split: 18, 1, 1
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};

bool blank(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Whether this is UTF-8: no overlong forms, no surrogates, at most U+10FFFF (Unicode 15, table 3-7).
bool is_utf8(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(s[i]); };
  for (std::size_t i = 0; i < s.size();) {
    const std::uint8_t lead = byte(i++);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const std::size_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    std::uint8_t low = 0x80, high = 0xBF;  // of the second byte
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (i + more > s.size()) return false;
    for (std::size_t k = 0; k < more; ++k, ++i, low = 0x80, high = 0xBF)
      if (byte(i) < low || byte(i) > high) return false;
  }
  return true;
}

/// Calls word(text) for each word of a file and end_of_line() behind each line; memory does not grow with either.
template <class Word, class EndOfLine>
void read_words(const std::string& path, Word word, EndOfLine end_of_line) {
  InputFile file(path);
  std::uint64_t line = 1, words = 0;
  std::string open;    // the word that has begun
  bool begun = false;  // the line has bytes
  const auto finish = [&] {
    if (open.empty()) return;
    require<DataError>(is_utf8(open), path, ", line ", grouped(line),
                       ": not UTF-8. Convert the file, as with iconv -t UTF-8.");
    word(std::string_view(open));
    open.clear();
    ++words;
  };
  for (std::vector<std::uint8_t> bytes = file.read(1 << 20); !bytes.empty(); bytes = file.read(1 << 20)) {
    std::size_t i = 0;
    if (file.bytes_read() == bytes.size() && bytes.size() >= 3 && bytes[0] == 0xEF && bytes[1] == 0xBB &&
        bytes[2] == 0xBF)
      i = 3;  // a byte order mark
    for (; i < bytes.size(); ++i) {
      const std::uint8_t c = bytes[i];
      if (blank(c)) {
        finish();
        begun = c != '\n';
        if (!begun) end_of_line(), ++line;
        continue;
      }
      begun = true;
      require<DataError>(open.size() < kLongestWord, path, ", line ", grouped(line), ": a word of more than ",
                         grouped(kLongestWord), " bytes. Is this text, with blanks between its words?");
      open += static_cast<char>(c);
    }
  }
  finish();
  if (begun) end_of_line();
  require<DataError>(words > 0, path, " is empty: it has no words. Give a file with text.");
}

/// Whether `name` is one of a part's file: see load_text.
bool is_part(std::string name, const char* part) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  std::vector<std::string> pieces{""};
  for (char c : name)
    if (c == '.')
      pieces.emplace_back();
    else
      pieces.back() += c;
  return pieces.size() >= 2 && (pieces.back() == "txt" || pieces.back() == "tokens") &&
         std::find(pieces.begin(), pieces.end() - 1, part) != pieces.end() - 1;
}

std::string file_of(const std::string& folder, const char* part) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (is_part(name, part) && it->is_regular_file(ignored)) names.push_back(name);
  }
  require<DataError>(!error, folder, " cannot be read: ", error.message(), ". Check its permissions (`data`).");
  std::sort(names.begin(), names.end());
  // What was unpacked beside its archive is the same file.
  if (names.size() == 2 && names[1] == names[0] + ".gz") names.pop_back();
  require<DataError>(!names.empty(), folder, " has no ", part, " text: none of its files is named like ", part,
                     ".txt, x.", part, ".txt or x.", part,
                     ".tokens, plain or .gz. Name one so, or give one text file (`data`).");
  require<DataError>(names.size() == 1, folder, " has two files that could be the ", part, " text, ", names[0], " and ",
                     names.size() > 1 ? names[1] : "", ". Keep one of them there (`data`).");
  return (fs::path(folder) / names[0]).string();
}

TextDataset load_folder(const std::string& folder) {
  TextDataset data;
  std::array<std::string, 3> paths;
  for (std::size_t i = 0; i < 3; ++i) paths[i] = file_of(folder, kParts[i]);
  std::array<std::vector<std::int32_t>*, 3> parts = {&data.train, &data.valid, &data.test};
  std::int32_t known = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int32_t>& part = *parts[i];
    read_words(
        paths[i], [&](std::string_view word) { part.push_back(data.vocabulary.add(word)); },
        [&] { part.push_back(data.vocabulary.add(Vocabulary::kEnd)); });
    if (i == 0) known = data.vocabulary.size();
  }
  data.close_vocabulary(known);
  return data;
}

TextDataset load_file(const std::string& path) {
  TextDataset data;
  std::vector<std::int32_t> all;
  std::vector<std::size_t> ends;  // of lines
  read_words(
      path, [&](std::string_view word) { all.push_back(data.vocabulary.add(word)); },
      [&] {
        all.push_back(data.vocabulary.add(Vocabulary::kEnd));
        ends.push_back(all.size());
      });
  const auto lines = static_cast<std::int64_t>(ends.size());
  require<DataError>(
      lines >= kFewestLines, path, " has ", lines, lines == 1 ? " line" : " lines",
      ", and one file is split by lines, 90 % for training and 5 % each for validation and test: at least ",
      kFewestLines, ". Break it into lines, or give a folder with train.txt, valid.txt and test.txt (`data`).");
  const auto end_of = [&](std::int64_t percent) {
    return all.begin() + static_cast<std::ptrdiff_t>(ends[static_cast<std::size_t>(lines * percent / 100 - 1)]);
  };
  data.train.assign(all.begin(), end_of(90));
  data.valid.assign(end_of(90), end_of(95));
  data.test.assign(end_of(95), all.end());
  data.close_vocabulary(*std::max_element(data.train.begin(), data.train.end()) + 1);
  return data;
}

}  // namespace

std::int32_t Vocabulary::add(std::string_view word) {
  if (const auto known = numbers_.find(word); known != numbers_.end()) return known->second;
  const auto [place, is_new] = numbers_.emplace(word, size());
  words_.push_back(&place->first);
  return place->second;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view word) const {
  const auto known = numbers_.find(word);
  return known == numbers_.end() ? std::nullopt : std::optional(known->second);
}

void Vocabulary::shorten(std::int32_t size) {
  for (; this->size() > size; words_.pop_back()) numbers_.erase(numbers_.find(*words_.back()));
}

void TextDataset::close_vocabulary(std::int32_t known) {
  vocabulary.shorten(known);
  const std::int32_t unknown = vocabulary.add(Vocabulary::kUnknown);
  for (auto* part : {&valid, &test})
    for (std::int32_t& word : *part)
      if (word >= known) word = unknown, ++unseen;
}

TextDataset load_text(const std::string& path) {
  std::error_code error;
  require<DataError>(fs::exists(path, error), path,
                     " does not exist. Give a folder with train, valid and test text, or a text file (`data`).");
  TextDataset data = fs::is_directory(path, error) ? load_folder(path) : load_file(path);
  data.name = path;
  return data;
}

std::uint64_t fingerprint(const TextDataset& data) {
  Digest digest;
  for (std::int32_t i = 0; i < data.vocabulary.size(); ++i)
    digest.add(data.vocabulary.word(i).data(), data.vocabulary.word(i).size());
  for (const auto* part : {&data.train, &data.valid, &data.test}) digest.add(*part);
  return digest.value();
}

TextStreams TextStreams::training(const std::vector<std::int32_t>& text, std::int64_t batch, int ranks, int rank) {
  TextStreams s(text);
  const std::int64_t words = static_cast<std::int64_t>(text.size()) / (batch * ranks);
  for (std::int64_t b = 0; b < batch; ++b) s.starts_.push_back((rank * batch + b) * words);
  s.length_ = std::max<std::int64_t>(words - 1, 0);
  s.longest_ = batch;
  return s;
}

std::vector<std::int32_t> TextStreams::unread(const std::vector<std::int32_t>& text, std::int64_t streams,
                                              std::int64_t words) {
  std::vector<std::int32_t> rest;
  const std::int64_t each = static_cast<std::int64_t>(text.size()) / streams;
  for (std::int64_t s = 0; s < streams && words < each; ++s)
    rest.insert(rest.end(), text.begin() + s * each + words, text.begin() + (s + 1) * each);
  return rest;
}

TextStreams TextStreams::evaluation(const std::vector<std::int32_t>& text, std::int64_t rows, int ranks, int rank) {
  TextStreams s(text);
  const std::int64_t foretold = std::max<std::int64_t>(static_cast<std::int64_t>(text.size()) - 1, 0);
  rows = std::min(rows, foretold);
  if (rows == 0) return s;
  const std::int64_t words = foretold / rows, longer = foretold % rows;
  for (std::int64_t r = rows * rank / ranks; r < rows * (rank + 1) / ranks; ++r) {
    s.starts_.push_back(r * words + std::min(r, longer));
    const std::int64_t length = words + (r < longer);
    if (length < s.length_) continue;
    s.length_ = length;
    ++s.longest_;
  }
  return s;
}

TextStreams::Segment TextStreams::segment(std::int64_t from, std::int64_t steps) const {
  Segment s{Tensor::empty({steps, streams()}, DType::i64), Tensor::empty({steps * streams()}, DType::i64),
            steps * streams()};
  if (from + steps == length_) s.counted -= streams() - longest_;
  auto *word = s.words.data<std::int64_t>(), *next = s.next.data<std::int64_t>();
  const std::int64_t last = static_cast<std::int64_t>(text_->size()) - 1;
  for (std::int64_t t = from; t < from + steps; ++t)
    for (const std::int64_t start : starts_) {
      *word++ = (*text_)[static_cast<std::size_t>(start + t)];
      // What is beyond the text's end is not counted.
      *next++ = (*text_)[static_cast<std::size_t>(std::min(start + t + 1, last))];
    }
  return s;
}

}  // namespace laconic
