#include "data/text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/foreign_file.h"
#include "data/bpe.h"
#include "data/input_file.h"
#include "data/text_parts.h"
#include "data/token_file.h"
#include "data/utf8.h"

namespace laconic {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestWord = 4096;      // bytes; longer ones are no words, and this file is no text
constexpr std::int64_t kFewestLines = 20;       // lines of one file that is split: 18, 1, 1
constexpr std::int64_t kFewestCharacters = 20;  // 18, 2
constexpr std::string_view kPairs = "bpe:", kNumbers = "numbers";

bool blank(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The bytes in front of the first that is not UTF-8: text.size() if all of them are.
std::size_t well_formed(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t bytes = utf8_bytes(text, i);
    if (bytes == 0) break;
    i += bytes;
  }
  return i;
}

void require_utf8(bool ok, const std::string& path, std::uint64_t line) {
  require<DataError>(ok, path, ", line ", grouped(line), ": not UTF-8. Convert the file, as with iconv -t UTF-8.");
}

void require_no_zero(bool ok, const std::string& path, std::uint64_t line) {
  require<DataError>(ok, path, ", line ", grouped(line),
                     ": a byte 0, which no text has. Convert UTF-16, as with iconv -f UTF-16LE -t UTF-8; if it holds "
                     "numbers of tokens, as nanoGPT's train.bin does, say numbers (`tokens`).");
}

/// Throws DataError for what was saved in place of a file. HTML under a text's name is a text.
void require_the_file_itself(const std::string& path) {
  const std::string start = read_text(path, 64);
  const bool page = path.ends_with(".bin") && start.find_first_not_of(" \t\r\n") == start.find('<');
  if (start.starts_with("version https://git-lfs") || (page && start.find('<') != std::string::npos))
    throw DataError(about_foreign_file(path));
}

std::array<TokenSequence*, 3> parts_of(TextDataset& data) { return {&data.train, &data.valid, &data.test}; }

/// Appends the numbers of a file's words to `tokens`, and one for the end of each line. Returns where the lines end.
std::vector<std::size_t> read_words(const std::string& path, Vocabulary& vocabulary,
                                    std::vector<std::int32_t>& tokens) {
  InputFile file(path);
  std::uint64_t line = 1, words = 0;
  std::vector<std::size_t> ends;
  std::string open;    // the word that has begun
  bool begun = false;  // the line has bytes
  const auto finish = [&] {
    if (open.empty()) return;
    require_utf8(well_formed(open) == open.size(), path, line);
    tokens.push_back(vocabulary.add(open));
    open.clear();
    ++words;
  };
  const auto end_line = [&] {
    tokens.push_back(vocabulary.add(Vocabulary::kEnd));
    ends.push_back(tokens.size());
  };
  for (std::vector<std::uint8_t> bytes = file.read(1 << 20); !bytes.empty(); bytes = file.read(1 << 20)) {
    const bool marked = file.bytes_read() == bytes.size() && bytes.size() >= 3 && bytes[0] == 0xEF &&
                        bytes[1] == 0xBB && bytes[2] == 0xBF;
    for (std::size_t i = marked ? 3 : 0; i < bytes.size(); ++i) {
      const std::uint8_t c = bytes[i];
      if (blank(c)) {
        finish();
        begun = c != '\n';
        if (!begun) end_line(), ++line;
        continue;
      }
      begun = true;
      require_no_zero(c != 0, path, line);
      require<DataError>(open.size() < kLongestWord, path, ", line ", grouped(line), ": a word of more than ",
                         grouped(kLongestWord), " bytes. Is this text, with blanks between its words?");
      open += static_cast<char>(c);
    }
  }
  finish();
  if (begun) end_line();
  require<DataError>(words > 0, path, " is empty: it has no words. Give a file with text.");
  return ends;
}

std::string utf8_text(const std::string& path) {
  std::string text = read_text(path);
  require<DataError>(!text.empty(), path, " is empty: it has no characters. Give a file with text.");
  const auto line_of = [&](std::size_t place) {
    return static_cast<std::uint64_t>(
               std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n')) +
           1;
  };
  const std::size_t zero = text.find('\0'), good = well_formed(text);
  if (zero < good) require_no_zero(false, path, line_of(zero));
  if (good < text.size()) require_utf8(false, path, line_of(good));
  return text;
}

TextDataset load_folder(const std::string& folder) {
  TextDataset data;
  const auto files = part_files(folder, PartsHold::text);
  std::int32_t known = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int32_t> numbers;
    read_words(files[i], data.vocabulary, numbers);
    *parts_of(data)[i] = std::move(numbers);
    if (i == 0) known = data.vocabulary.size();
  }
  data.close_vocabulary(known);
  return data;
}

TextDataset load_file(const std::string& path) {
  TextDataset data;
  std::vector<std::int32_t> all;
  const std::vector<std::size_t> ends = read_words(path, data.vocabulary, all);
  const auto lines = static_cast<std::int64_t>(ends.size());
  require<DataError>(
      lines >= kFewestLines, path, " has ", lines, lines == 1 ? " line" : " lines",
      ", and one file is split by lines, 90 % for training and 5 % each for validation and test: at least ",
      kFewestLines, ". Break it into lines, or give a folder with train.txt, valid.txt and test.txt (`data`).");
  const auto end_of = [&](std::int64_t percent) {
    return all.begin() + static_cast<std::ptrdiff_t>(ends[static_cast<std::size_t>(lines * percent / 100 - 1)]);
  };
  const std::int32_t known = *std::max_element(all.begin(), end_of(90)) + 1;
  data.train = std::vector(all.begin(), end_of(90));
  data.valid = std::vector(end_of(90), end_of(95));
  data.test = std::vector(end_of(95), all.end());
  for (const auto* part : {&data.valid, &data.test})
    require<DataError>(part->size() >= 2, path, ": its ", part == &data.valid ? "validation" : "test",
                       " text is an empty line, so there is nothing to foretell. Give a longer text (`data`).");
  data.close_vocabulary(known);
  return data;
}

/// Train, valid and test as texts. The last is empty if they come from one file.
std::array<std::string, 3> read_parts(const std::string& path, bool is_folder) {
  std::array<std::string, 3> parts;
  if (is_folder) {
    parts = part_files(path, PartsHold::text);
    for (std::string& part : parts) part = utf8_text(part);
    return parts;
  }
  std::string text = utf8_text(path);
  std::int64_t characters = 0;
  for (std::size_t i = 0; i < text.size(); i += utf8_bytes(text, i)) ++characters;
  require<DataError>(
      characters >= kFewestCharacters, path, " has ", characters, characters == 1 ? " character" : " characters",
      ", and one file is split, 90 % for training and the rest for validation: at least ", kFewestCharacters,
      ". Give a longer text, or a folder with train.txt, valid.txt and test.txt (`data`).");
  std::size_t cut = 0;
  for (std::int64_t i = 0; i < characters * 9 / 10; ++i) cut += utf8_bytes(text, cut);
  parts[1] = text.substr(cut);
  text.resize(cut);
  parts[0] = std::move(text);
  return parts;
}

/// The different characters of some texts, sorted: UTF-8 sorts as code points do.
Vocabulary alphabet_of(const std::array<std::string, 3>& parts) {
  std::set<std::string_view> different;
  for (const std::string_view text : parts)
    for (std::size_t i = 0, bytes = 0; i < text.size(); i += bytes)
      different.insert(text.substr(i, bytes = utf8_bytes(text, i)));
  Vocabulary alphabet;
  for (const std::string_view character : different) alphabet.add(character);
  return alphabet;
}

void take_pairs(TextDataset& data, BytePairs pairs) {
  data.pairs = std::make_shared<BytePairs>(std::move(pairs));
  for (std::int32_t i = 0; i < data.pairs->size(); ++i) data.vocabulary.add(data.pairs->token(i));
}

TextDataset load_without_words(const std::string& path, bool is_folder, const Tokens& tokens) {
  const std::array<std::string, 3> parts = read_parts(path, is_folder);
  TextDataset data;
  data.name = path;
  data.tokens = tokens;
  if (tokens.kind == Tokens::Kind::pairs)
    take_pairs(data, tokens.size > 0 ? BytePairs::train(parts[0], tokens.size) : BytePairs::load(tokens.path));
  else
    data.vocabulary = alphabet_of(parts);
  for (std::size_t i = 0; i < 3; ++i) {
    TokenSequence& part = *parts_of(data)[i];
    part = data.encode(parts[i]);
    require<DataError>(part.size() >= 2 || parts[i].empty(), path, ": its ", kPartNames[i],
                       " text is one token, and nothing can be foretold. Give a longer text (`data`).");
  }
  return data;
}

/// Maps the parts of a folder, or of a file.
void map_numbers(TextDataset& data, const std::string& path, bool is_folder, std::int64_t vocabulary) {
  if (is_folder) {
    const auto files = part_files(path, PartsHold::numbers);
    for (std::size_t i = 0; i < 3; ++i)
      if (!files[i].empty()) *parts_of(data)[i] = map_token_file(files[i], vocabulary);
  } else {
    const TokenSequence all = map_token_file(path, vocabulary);
    const std::size_t cut = all.size() / 10 * 9 + all.size() % 10 * 9 / 10;
    data.train = all.part(0, cut), data.valid = all.part(cut, all.size());
  }
  for (std::size_t i = 0; i < 3; ++i)
    if (const std::size_t size = parts_of(data)[i]->size(); i < 2 || size > 0)
      require<DataError>(size >= 2, path, ": its ", kPartNames[i], " part has ", size, size == 1 ? " token" : " tokens",
                         ", and nothing can be foretold. Give a longer one (`data`).");
}

TextDataset load_numbers(const std::string& path, bool is_folder, const Tokens& tokens) {
  TextDataset data;
  data.tokens = tokens;
  std::int64_t vocabulary = tokens.size;
  if (tokens.kind == Tokens::Kind::pairs) {
    if (tokens.size > 0)
      refuse(path + " has numbers of tokens, and byte pairs are learned from text", "`tokens`",
             "give numbers, or the tokenizer that they were made with, as bpe:PATH");
    take_pairs(data, BytePairs::load(tokens.path));
    map_numbers(data, path, is_folder, data.vocabulary.size());
    return data;
  }
  map_numbers(data, path, is_folder, vocabulary);
  if (vocabulary == 0) {
    for (const TokenSequence* const part : parts_of(data)) vocabulary = std::max(vocabulary, part->largest() + 1);
    data.note = concat("a vocabulary of ", grouped(static_cast<std::uint64_t>(vocabulary)),
                       " tokens, by the largest number among them");
  }
  for (std::int64_t i = 0; i < vocabulary; ++i) data.vocabulary.add(std::to_string(i));
  const fs::path pickle = (is_folder ? fs::path(path) : fs::path(path).parent_path()) / "meta.pkl";
  if (std::error_code error; fs::exists(pickle, error))
    data.note += concat(data.note.empty() ? "" : "\n", pickle.string(),
                        ", a pickle of Python, is not read: tokens are written as numbers");
  return data;
}

}  // namespace

Tokens Tokens::parse(const std::string& text) {
  if (text == "words") return {};
  if (text == "chars") return {.kind = Kind::characters};
  if (text == kNumbers) return {.kind = Kind::numbers};
  const auto size_from = [](const std::string& size, std::int32_t least, const char* advice) {
    const auto number = number_from<std::int32_t>(size);
    if (!number || *number < least || *number > kMostTokens)
      refuse(concat("a vocabulary of ", size, " tokens"), "`tokens`", advice);
    return *number;
  };
  if (text.starts_with(concat(kNumbers, ":")))
    return {.kind = Kind::numbers,
            .size = size_from(text.substr(kNumbers.size() + 1), 2, "give 2 to 1,000,000, as numbers:50257")};
  if (!text.starts_with(kPairs) || text.size() == kPairs.size())
    refuse(concat("'", text, "' is no kind of tokens"), "`tokens`",
           "give words, chars, numbers, bpe:SIZE or bpe:PATH, as bpe:1000");
  const std::string how = text.substr(kPairs.size());
  if (how.find_first_not_of("0123456789") != std::string::npos) return {.kind = Kind::pairs, .path = how};
  return {.kind = Kind::pairs, .size = size_from(how, 256, "give 256, the bytes alone, to 1,000,000")};
}

std::string Tokens::text() const {
  if (kind == Kind::words) return "words";
  if (kind == Kind::characters) return "chars";
  if (kind == Kind::numbers) return size > 0 ? concat(kNumbers, ":", size) : std::string(kNumbers);
  return concat(kPairs, size > 0 ? std::to_string(size) : path);
}

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
  for (TokenSequence* const part : {&valid, &test}) {
    std::vector<std::int32_t> words = part->numbers();
    for (std::int32_t& word : words)
      if (word >= known) word = unknown, ++unseen;
    *part = std::move(words);
  }
}

std::vector<std::int32_t> TextDataset::encode(std::string_view text) const {
  if (pairs) return pairs->encode(text);
  std::vector<std::int32_t> numbers;
  if (tokens.kind == Tokens::Kind::characters) {
    for (std::size_t i = 0, bytes = 0; i < text.size(); i += bytes) {
      bytes = utf8_bytes(text, i);
      require<DataError>(bytes > 0, name, ": a text that is not UTF-8 cannot be read as its characters.");
      const std::string_view character = text.substr(i, bytes);
      const auto number = vocabulary.find(character);
      require<DataError>(number.has_value(), name, " does not have the character '", character,
                         "', so it is not in the vocabulary. Leave it out.");
      numbers.push_back(*number);
    }
    return numbers;
  }
  const auto add = [&](std::string_view word) {
    auto number = vocabulary.find(word);
    if (!number) number = vocabulary.find(Vocabulary::kUnknown);
    require<DataError>(number.has_value(), name, ": the vocabulary has neither '", word, "' nor ", Vocabulary::kUnknown,
                       ".");
    numbers.push_back(*number);
  };
  for (std::size_t i = 0, end = 0; i < text.size(); i = end) {
    end = i;
    while (end < text.size() && !blank(static_cast<std::uint8_t>(text[end]))) ++end;
    if (end > i)
      add(text.substr(i, end - i));
    else if (text[end++] == '\n' && tokens.kind == Tokens::Kind::words)
      add(Vocabulary::kEnd);
  }
  return numbers;
}

std::string TextDataset::decode(std::span<const std::int32_t> numbers) const {
  std::string text;
  for (const std::int32_t number : numbers) {
    require<DataError>(number >= 0 && number < vocabulary.size(), name, ": there is no token ", number,
                       " in a vocabulary of ", vocabulary.size(), ".");
    const std::string& token = vocabulary.word(number);
    if (!tokens.are_spaced())
      text += token;
    else if (token == Vocabulary::kEnd)
      text += '\n';
    else
      text += (text.empty() || text.back() == '\n' ? "" : " ") + token;
  }
  return text;
}

TextDataset load_text(const std::string& path, const Tokens& tokens) {
  std::error_code error;
  require<DataError>(fs::exists(path, error), path,
                     " does not exist. Give a folder with train, valid and test text, or a text file (`data`).");
  const bool is_folder = fs::is_directory(path, error);
  if (!is_folder) require_the_file_itself(path);
  const bool numbers =
      tokens.kind == Tokens::Kind::numbers || (tokens.kind == Tokens::Kind::pairs && has_token_numbers(path));
  TextDataset data = numbers                              ? load_numbers(path, is_folder, tokens)
                     : tokens.kind != Tokens::Kind::words ? load_without_words(path, is_folder, tokens)
                     : is_folder                          ? load_folder(path)
                                                          : load_file(path);
  data.name = path;
  return data;
}

bool has_token_numbers(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return fs::is_regular_file(path, error) && is_token_file(path);
  return !has_train_part(path, PartsHold::text) && has_train_part(path, PartsHold::numbers);
}

static Digest digest_of(const Vocabulary& vocabulary) {
  Digest digest;
  for (std::int32_t i = 0; i < vocabulary.size(); ++i) digest.add(vocabulary.word(i).data(), vocabulary.word(i).size());
  return digest;
}

std::uint64_t fingerprint(const Vocabulary& vocabulary) { return digest_of(vocabulary).value(); }

std::uint64_t fingerprint(const TextDataset& data) {
  Digest digest = digest_of(data.vocabulary);
  for (const TokenSequence* const part : {&data.train, &data.valid, &data.test}) part->add_to(digest);
  return digest.value();
}

}  // namespace laconic
