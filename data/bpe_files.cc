// Vocabularies of byte pairs that others have written: see BytePairs::load.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "data/bpe.h"
#include "data/bpe_alphabet.h"
#include "data/bpe_json.h"
#include "data/input_file.h"

namespace laconic {
namespace fs = std::filesystem;

/// Makes byte pairs of what files say, and checks it on the way: first all tokens, then merges one by one.
class PairsReader {
 public:
  /// Takes the tokens' bytes by their numbers, and those that are found whole in a text.   file : the name in messages
  PairsReader(const TokenList& list, const std::string& file) : file_(file) {
    for (const std::string& bytes : list.tokens) {
      const std::int32_t number = pairs_.size();
      require<DataError>(!bytes.empty(), file, ": no token has the number ", number, ". Fetch it again.");
      require<DataError>(pairs_.add(bytes) == number, file, ": two tokens are the bytes '", spelled_in_alphabet(bytes),
                         "'. Fetch it again.");
    }
    for (int b = 0; b < 256; ++b) {
      const std::string byte(1, static_cast<char>(b));
      require<DataError>(pairs_.numbers_.contains(byte), file, ": byte ", b, ", '", spelled_in_alphabet(byte),
                         "', has no token. A byte-level vocabulary has one for each byte.");
    }
    pairs_.index_bytes();
    for (std::size_t pass = 0; pass < list.whole.size(); ++pass) pairs_.whole_[pass] = list.whole[pass];
  }

  /// Adds a merge, spelled in the alphabet.   place : begins messages
  void merge(const std::string& left, const std::string& right, const std::string& place) {
    require<DataError>(!right.ends_with("</w>"), place, ": the token '", right,
                       "' has </w> behind a word's end, as CLIP's tokenizer marks it. ", kTakeGpt2s);
    const std::int32_t first = known(left, place), second = known(right, place), both = known(left + right, place);
    require_within_a_word(both, place);
    require<DataError>(pairs_.merge(first, second, both), place, ": '", left, " ", right,
                       "' comes twice. Fetch the file again.");
  }

  /// Adds the merge that makes this token of two that came before it, as tiktoken's numbers imply.
  void merge_of(std::int32_t number, const std::string& place) {
    std::vector<std::int32_t> parts;
    pairs_.encode_word(pairs_.token(number), parts);
    require<DataError>(parts.size() == 2, place, ": the token '", spelled_in_alphabet(pairs_.token(number)),
                       "' is not made of two that come before it. Is it a vocabulary of another kind?");
    require_within_a_word(number, place);
    pairs_.merge(parts[0], parts[1], number);
  }

  BytePairs done() { return std::move(pairs_); }

 private:
  std::int32_t known(const std::string& spelled, const std::string& place) const {
    const auto bytes = read_in_alphabet(spelled);
    const auto known = bytes ? pairs_.numbers_.find(*bytes) : pairs_.numbers_.end();
    require<DataError>(known != pairs_.numbers_.end(), place, ": the token '", spelled, "' is not in ", file_,
                       ". Do both belong together?");
    return known->second;
  }

  /// What GPT-2's pattern cuts, no merge of its tokenizer can have made. Of ASCII alone this is sure, for versions of
  /// Unicode differ in their letters.
  void require_within_a_word(std::int32_t number, const std::string& place) const {
    const std::string& token = pairs_.token(number);
    const bool ascii = std::ranges::all_of(token, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    const bool within = !ascii || word_bytes(token, 0) == token.size() || token == "'r" || token == "'v" ||
                        token == "'l";  // on their way to 're, 've and 'll
    require<DataError>(
        within, place, ": the token '", spelled_in_alphabet(token),
        "' goes across words of GPT-2's pattern, so texts were cut otherwise, as those of GPT-4, Llama 3 "
        "and Qwen are. ",
        kTakeGpt2s);
  }

  BytePairs pairs_;
  std::string file_;
};

namespace {

constexpr char kMergesHeader[] = "#version", kBehind[] = "<|endoftext|>";

/// Throws DataError if there are tokens beside a vocabulary that it lacks.
void require_no_more_tokens(const std::string& folder, const nlohmann::json& vocabulary) {
  const std::string file = find_file({folder}, {"added_tokens.json"});
  if (file.empty()) return;
  const nlohmann::json more = json_of_file(file);
  for (const auto& [token, number] : more.items())
    require<DataError>(vocabulary.contains(token), file, ": the token '", token,
                       "' is beside the vocabulary, and is not followed there. Save the tokenizer as one "
                       "tokenizer.json, as transformers' fast tokenizers do.");
}

BytePairs pairs_of_two_files(const std::string& vocabulary, const std::string& merges) {
  const nlohmann::json numbers = json_of_file(vocabulary);
  PairsReader reader(token_list(numbers, {}, vocabulary), vocabulary);
  require_no_more_tokens(fs::path(vocabulary).parent_path().string(), numbers);
  std::istringstream lines(read_text(merges));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (number == 1 && line.starts_with(kMergesHeader)) continue;
    if (line.empty() && lines.peek() == std::char_traits<char>::eof()) break;
    const auto place = concat(merges, ", line ", grouped(number));
    const std::size_t blank = line.find(' ');
    require<DataError>(blank != std::string::npos && line.find(' ', blank + 1) == std::string::npos, place, ": '", line,
                       "' is no merge: two tokens with one blank between are expected. Fetch it again.");
    reader.merge(line.substr(0, blank), line.substr(blank + 1), place);
  }
  return reader.done();
}

BytePairs pairs_of_json(const std::string& path) {
  const TokenizerJson json = tokenizer_json(path);
  PairsReader reader(json.list, path);
  for (std::size_t i = 0; i < json.merges.size(); ++i)
    reader.merge(json.merges[i].first, json.merges[i].second, concat(path, ", merge ", grouped(i + 1)));
  return reader.done();
}

/// The bytes of a text in base 64; nothing if it is none.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = i + padding < text.size() ? kDigits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 == 3)
      for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xFF);
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

BytePairs pairs_of_tiktoken(const std::string& path) {
  std::vector<std::pair<std::string, std::int64_t>> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::size_t blank = std::min(line.find(' '), line.size());
    const auto bytes = from_base64(std::string_view(line).substr(0, blank));
    const auto number = number_from<std::int64_t>(line.substr(std::min(blank + 1, line.size())));
    require<DataError>(bytes && number && *number >= 0, path, ", line ", grouped(lines.size() + 1), ": '",
                       line.substr(0, 80), "' is no token in base 64 and its number. Fetch it again.");
    lines.emplace_back(*bytes, *number);
  }
  require<DataError>(!lines.empty(), path, " has no tokens. Fetch it again.");
  TokenList list{.tokens = std::vector<std::string>(lines.size() + 1)};  // with <|endoftext|>
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [bytes, number] = lines[i];
    const bool beyond = number > std::ssize(lines);
    require<DataError>(!beyond && list.tokens[static_cast<std::size_t>(number)].empty(), path, ", line ",
                       grouped(i + 1), ": the number ", number, beyond ? " is too large for " : " comes twice among ",
                       grouped(lines.size()), " tokens. Fetch it again.");
    list.tokens[static_cast<std::size_t>(number)] = bytes;
  }
  if (std::ranges::find(list.tokens, kBehind) == list.tokens.end())
    *std::ranges::find(list.tokens, "") = kBehind;
  else if (list.tokens.back().empty())
    list.tokens.pop_back();
  PairsReader reader(list, path);
  for (std::size_t i = 0; i < list.tokens.size(); ++i)
    if (list.tokens[i].size() > 1 && list.tokens[i] != kBehind)
      reader.merge_of(static_cast<std::int32_t>(i), concat(path, ", token ", i));
  return reader.done();
}

/// The one .tiktoken of a folder; "" if there is none.
std::string tiktoken_in(const std::string& folder) {
  std::string found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".tiktoken") continue;
    require<DataError>(found.empty(), folder, " has two vocabularies, ", found, " and ", it->path().string(),
                       ". Name one of them (`tokens`).");
    found = it->path().string();
  }
  return found;
}

}  // namespace

BytePairs BytePairs::load(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  require<DataError>(exists, path,
                     " does not exist. Give a folder with a tokenizer's files, or one of them (`tokens`).");
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(".tiktoken")) return pairs_of_tiktoken(path);
    const std::string start = read_text(path, 64);
    const std::size_t first = start.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    require<DataError>(first != std::string::npos && start[first] == '{', path,
                       " is neither a tokenizer.json nor a .tiktoken. Give one of them, or the folder of vocab.json "
                       "and merges.txt (`tokens`).");
    return pairs_of_json(path);
  }
  if (const std::string json = find_file({path}, {"tokenizer.json"}); !json.empty()) return pairs_of_json(json);
  for (const auto& [vocabulary, merges] :
       {std::pair{"vocab.json", "merges.txt"}, std::pair{"encoder.json", "vocab.bpe"}})
    if (const std::string file = find_file({path}, {vocabulary}); !file.empty()) {
      const std::string other = find_file({path}, {merges});
      return pairs_of_two_files(file, other.empty() ? (fs::path(path) / merges).string() : other);
    }
  if (const std::string file = tiktoken_in(path); !file.empty()) return pairs_of_tiktoken(file);
  const bool pieces = fs::exists(fs::path(path) / "tokenizer.model", error);
  throw DataError(concat(path,
                         pieces ? " has a tokenizer.model, which is not followed. "
                                : " has no tokenizer: no tokenizer.json, vocab.json with merges.txt, encoder.json "
                                  "with vocab.bpe or NAME.tiktoken. ",
                         kTakeGpt2s));
}

void BytePairs::save(const std::string& folder) const {
  std::error_code error;
  fs::create_directories(folder, error);
  require<DataError>(!error, folder, " cannot be made: ", error.message(), ". Check the path and its permissions.");
  AtomicFile vocabulary((fs::path(folder) / "vocab.json").string());
  AtomicFile merges((fs::path(folder) / "merges.txt").string());
  AtomicFile json((fs::path(folder) / "tokenizer.json").string());
  std::string text;
  for (std::int32_t i = 0; i < size(); ++i)
    text += concat(i > 0 ? ", " : "{", nlohmann::json(spelled_in_alphabet(token(i))).dump(), ": ", i);
  vocabulary.write(text + "}\n");
  text = concat(kMergesHeader, ": 0.2\n");
  for (const auto& [left, right] : merges_)
    text += concat(spelled_in_alphabet(token(left)), " ", spelled_in_alphabet(token(right)), "\n");
  merges.write(text);
  json.write(tokenizer_json_of({tokens_, whole_}, merges_));
  vocabulary.commit();
  merges.commit();
  json.commit();
}

}  // namespace laconic
