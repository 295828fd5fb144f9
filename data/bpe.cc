#include "data/bpe.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <sstream>
#include <tuple>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "data/input_file.h"
#include "data/utf8.h"

namespace laconic {
namespace {

#include "data/unicode_ranges.inc"

constexpr char kVocabularyFile[] = "vocab.json", kMergesFile[] = "merges.txt", kMergesHeader[] = "#version";
constexpr std::int64_t kRarest = 2;  // pairs that come less often are not learned

/// The code points of a table of runs: where each run that belongs to it begins and ends.
struct CodePoints : std::vector<char32_t> {
  explicit CodePoints(std::span<const std::uint16_t> runs) {
    for (char32_t at = 0x80; const std::uint16_t run : runs) push_back(at += run);
  }
  bool contains(char32_t code) const { return (std::upper_bound(begin(), end(), code) - begin()) % 2 == 1; }
};

enum class Written { letter, number, space, other, nothing };

Written written_as(char32_t c) {
  static const CodePoints letters{kLetterRuns}, numbers{kNumberRuns};
  if (c < 0x80) {
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Written::letter;
    if (c >= '0' && c <= '9') return Written::number;
    return c == ' ' || (c >= '\t' && c <= '\r') ? Written::space : Written::other;
  }
  if (c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
      c == 0x202F || c == 0x205F || c == 0x3000)
    return Written::space;
  return letters.contains(c) ? Written::letter : numbers.contains(c) ? Written::number : Written::other;
}

struct Character {
  Written as = Written::nothing;  // behind the text's end
  std::size_t bytes = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const std::size_t bytes = utf8_bytes(text, at);
  return bytes == 0 ? Character{Written::other, 1} : Character{written_as(code_point(text, at, bytes)), bytes};
}

/// GPT-2's alphabet: printable characters of Latin-1 stand for themselves, the other bytes for U+0100 and so on.
struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::vector<std::uint8_t> order;  // bytes as their characters sort, which is how GPT-2 numbers them
  std::unordered_map<char32_t, std::uint8_t> byte_of;

  Alphabet() {
    const auto printable = [](int b) { return (b > ' ' && b <= '~') || (b > 0xA0 && b != 0xAD); };
    char32_t next = 0x100;
    for (const bool stands_for_itself : {true, false})
      for (int b = 0; b < 256; ++b) {
        if (printable(b) != stands_for_itself) continue;
        const char32_t code = stands_for_itself ? static_cast<char32_t>(b) : next++;
        of_byte[static_cast<std::size_t>(b)] = code;
        byte_of[code] = static_cast<std::uint8_t>(b);
        order.push_back(static_cast<std::uint8_t>(b));
      }
  }
};

const Alphabet kAlphabet;

/// Bytes in the alphabet, as UTF-8.
std::string spelled_in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char b : bytes) {
    const char32_t code = kAlphabet.of_byte[static_cast<std::uint8_t>(b)];
    if (code >= 0x80) text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return text;
}

std::optional<std::string> read_in_alphabet(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
    n = utf8_bytes(text, i);
    const auto byte = kAlphabet.byte_of.find(n == 0 ? 0 : code_point(text, i, n));
    if (byte == kAlphabet.byte_of.end()) return std::nullopt;
    bytes += static_cast<char>(byte->second);
  }
  return bytes;
}

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// All different words of a text, byte by byte, whose tokens grow together; and what stands side by side there.
class Neighbours {
 public:
  Neighbours(std::string_view text, const std::vector<std::int32_t>& byte) {
    std::unordered_map<std::string_view, std::int64_t> words;
    for (std::size_t i = 0, n = 0; i < text.size(); i += n) ++words[text.substr(i, n = word_bytes(text, i))];
    std::size_t bytes = 0;
    for (const auto& [word, times] : words) bytes += word.size();
    require<DataError>(bytes < std::numeric_limits<std::int32_t>::max(), "bpe: the text's different words have ",
                       grouped(bytes), " bytes, at most 2,147,483,646 can be learned from. Give a part of the text.");
    places_.reserve(bytes);
    for (const auto& [word, times] : words)
      for (std::size_t i = 0; i < word.size(); ++i) {
        const auto here = static_cast<std::int32_t>(places_.size());
        places_.push_back({byte[static_cast<std::uint8_t>(word[i])], i > 0 ? here - 1 : kNone,
                           i + 1 < word.size() ? here + 1 : kNone, times});
        if (i > 0) gain(here - 1);
      }
    announce();
  }

  struct Pair {
    std::int32_t left, right;
  };
  /// The pair to merge next; none if no pair comes twice.
  std::optional<Pair> most_frequent() {
    while (!candidates_.empty() && candidates_.top().times >= kRarest) {
      const Candidate top = candidates_.top();
      const auto pair = pairs_.find(top.pair);
      if (pair != pairs_.end() && pair->second.times == top.times)
        return Pair{static_cast<std::int32_t>(top.pair >> 32), static_cast<std::int32_t>(top.pair & 0xFFFFFFFF)};
      candidates_.pop();
      // It has become rarer since. (Had it become more frequent, it would have been announced anew.)
      if (pair != pairs_.end() && pair->second.times < top.times) candidates_.push({pair->second.times, top.pair});
    }
    return std::nullopt;
  }

  /// Makes `token` of each such pair, from the left of a word on.
  void merge(Pair p, std::int32_t token) {
    auto pair = pairs_.extract(key_of(p.left, p.right));
    std::vector<std::int32_t> places = std::move(pair.mapped().places);
    std::sort(places.begin(), places.end());
    for (const std::int32_t at : places) {
      Place& here = place(at);
      if (here.token != p.left || here.next == kNone || place(here.next).token != p.right) continue;
      Place& gone = place(here.next);
      if (here.before != kNone) lose(place(here.before).token, p.left, here.times);
      if (gone.next != kNone) lose(p.right, place(gone.next).token, here.times);
      here.token = token;
      here.next = gone.next;
      gone.token = kNone;
      if (here.next != kNone) place(here.next).before = at, gain(at);
      if (here.before != kNone) gain(here.before);
    }
    announce();
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Place {
    std::int32_t token, before, next;
    std::int64_t times;  // how often its word comes
  };
  struct Frequency {
    std::int64_t times = 0;
    std::vector<std::int32_t> places;  // places of its left tokens, and some where it was
  };
  struct Candidate {
    std::int64_t times;
    std::uint64_t pair;
    bool operator<(const Candidate& o) const { return times != o.times ? times < o.times : pair > o.pair; }
  };

  Place& place(std::int32_t at) { return places_[static_cast<std::size_t>(at)]; }
  void gain(std::int32_t at) {
    const std::uint64_t key = key_of(place(at).token, place(place(at).next).token);
    Frequency& pair = pairs_[key];
    pair.times += place(at).times;
    pair.places.push_back(at);
    more_frequent_.push_back(key);
  }
  void lose(std::int32_t left, std::int32_t right, std::int64_t times) {
    const auto pair = pairs_.find(key_of(left, right));
    if (pair != pairs_.end()) pair->second.times -= times;  // otherwise it is the pair that is being merged
  }
  void announce() {
    std::sort(more_frequent_.begin(), more_frequent_.end());
    more_frequent_.erase(std::unique(more_frequent_.begin(), more_frequent_.end()), more_frequent_.end());
    for (const std::uint64_t key : more_frequent_) candidates_.push({pairs_[key].times, key});
    more_frequent_.clear();
  }

  std::vector<Place> places_;
  std::unordered_map<std::uint64_t, Frequency> pairs_;
  std::vector<std::uint64_t> more_frequent_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

std::size_t word_bytes(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (rest.starts_with(ending)) return ending.size();
  std::size_t end = at + (text[at] == ' ');
  Character c = character_at(text, end);
  if (c.as != Written::space && c.as != Written::nothing) {
    for (const Written as = c.as; c.as == as; c = character_at(text, end)) end += c.bytes;
    return end - at;
  }
  std::size_t last = at;  // the beginning of the last white space
  for (c = character_at(text, end = at); c.as == Written::space; c = character_at(text, end))
    last = end, end += c.bytes;
  return (c.as == Written::nothing || last == at ? end : last) - at;
}

std::int32_t BytePairs::add(std::string token) {
  const auto [place, is_new] = numbers_.emplace(std::move(token), size());
  if (is_new) tokens_.push_back(place->first);
  return place->second;
}

bool BytePairs::merge(std::int32_t left, std::int32_t right, std::int32_t token) {
  if (!merged_.try_emplace(key_of(left, right), Merged{static_cast<std::int32_t>(merges_.size()), token}).second)
    return false;
  merges_.emplace_back(left, right);
  return true;
}

void BytePairs::index_bytes() {
  for (int b = 0; b < 256; ++b) byte_.push_back(numbers_.at(std::string(1, static_cast<char>(b))));
}

BytePairs BytePairs::train(std::string_view text, std::int32_t size) {
  require<UsageError>(size >= 256, "bpe: a vocabulary of ", size,
                      " tokens, at least 256 are needed, one for each byte.");
  BytePairs pairs;
  for (const std::uint8_t byte : kAlphabet.order) pairs.add(std::string(1, static_cast<char>(byte)));
  pairs.index_bytes();
  Neighbours neighbours(text, pairs.byte_);
  while (pairs.size() < size) {
    const auto next = neighbours.most_frequent();
    if (!next) break;
    const std::int32_t token = pairs.add(pairs.token(next->left) + pairs.token(next->right));
    pairs.merge(next->left, next->right, token);
    neighbours.merge(*next, token);
  }
  return pairs;
}

BytePairs BytePairs::load(const std::string& folder) {
  BytePairs pairs;
  const std::filesystem::path in = folder;
  const std::string vocabulary = (in / kVocabularyFile).string(), merges = (in / kMergesFile).string();
  nlohmann::json numbers;
  try {
    numbers = json_from(read_text(vocabulary), vocabulary);
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat(vocabulary, " is not JSON: ", e.what(), ". Fetch it again."));
  }
  require<DataError>(numbers.is_object() && !numbers.empty(), vocabulary,
                     " has no tokens: {\"token\": number, ...} is expected. Is it another file?");
  pairs.tokens_.resize(numbers.size());
  for (const auto& [spelled, value] : numbers.items()) {
    const auto bytes = read_in_alphabet(spelled);
    require<DataError>(bytes && !bytes->empty(), vocabulary, ": the token '", spelled,
                       "' is not spelled in GPT-2's alphabet of bytes. Is it another tokenizer's?");
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    require<DataError>(number >= 0 && number < std::ssize(pairs.tokens_), vocabulary, ": the token '", spelled,
                       "' has the number ", value.dump(), ", and ", grouped(pairs.tokens_.size()),
                       " tokens have the numbers from 0 on. Fetch it again.");
    std::string& place = pairs.tokens_[static_cast<std::size_t>(number)];
    require<DataError>(place.empty(), vocabulary, ": the tokens '", spelled_in_alphabet(place), "' and '", spelled,
                       "' have both the number ", number, ". Fetch it again.");
    place = *bytes;
    pairs.numbers_.emplace(*bytes, static_cast<std::int32_t>(number));
  }
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    require<DataError>(pairs.numbers_.contains(byte), vocabulary, ": byte ", b, ", '", spelled_in_alphabet(byte),
                       "', has no token. A byte-level vocabulary has one for each byte.");
  }
  pairs.index_bytes();

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
    const auto token = [&](const std::string& spelled) {
      const auto bytes = read_in_alphabet(spelled);
      const auto known = bytes ? pairs.numbers_.find(*bytes) : pairs.numbers_.end();
      require<DataError>(known != pairs.numbers_.end(), place, ": the token '", spelled, "' is not in ", vocabulary,
                         ". Do both files belong together?");
      return known->second;
    };
    const std::string left = line.substr(0, blank), right = line.substr(blank + 1);
    const std::int32_t first = token(left), second = token(right), both = token(left + right);
    require<DataError>(pairs.merge(first, second, both), place, ": '", line, "' comes twice. Fetch the file again.");
  }
  return pairs;
}

void BytePairs::save(const std::string& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<DataError>(!error, folder, " cannot be made: ", error.message(), ". Check the path and its permissions.");
  AtomicFile vocabulary((std::filesystem::path(folder) / kVocabularyFile).string());
  AtomicFile merges((std::filesystem::path(folder) / kMergesFile).string());
  std::string text;
  for (std::int32_t i = 0; i < size(); ++i)
    text += concat(i > 0 ? ", " : "{", nlohmann::json(spelled_in_alphabet(token(i))).dump(), ": ", i);
  vocabulary.write(text + "}\n");
  text = concat(kMergesHeader, ": 0.2\n");
  for (const auto& [left, right] : merges_)
    text += concat(spelled_in_alphabet(token(left)), " ", spelled_in_alphabet(token(right)), "\n");
  merges.write(text);
  vocabulary.commit();
  merges.commit();
}

void BytePairs::encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
  const std::size_t n = word.size();
  std::vector<std::int32_t> at(n);  // the tokens; -1 for one that was merged into its left neighbour
  std::vector<std::size_t> before(n), next(n);
  for (std::size_t i = 0; i < n; ++i)
    at[i] = byte_[static_cast<std::uint8_t>(word[i])], before[i] = i - 1, next[i] = i + 1;
  struct Step {
    std::int32_t rank;
    std::size_t place;
    std::int32_t left, right, token;
    bool operator<(const Step& o) const { return std::tie(rank, place) > std::tie(o.rank, o.place); }
  };
  std::priority_queue<Step> steps;
  const auto look = [&](std::size_t i) {
    if (next[i] >= n) return;
    const auto merged = merged_.find(key_of(at[i], at[next[i]]));
    if (merged != merged_.end()) steps.push({merged->second.rank, i, at[i], at[next[i]], merged->second.token});
  };
  for (std::size_t i = 0; i < n; ++i) look(i);
  while (!steps.empty()) {
    const Step s = steps.top();
    steps.pop();
    if (at[s.place] != s.left || next[s.place] >= n || at[next[s.place]] != s.right) continue;  // merged otherwise
    const std::size_t gone = next[s.place];
    at[s.place] = s.token;
    at[gone] = -1;
    next[s.place] = next[gone];
    if (next[gone] < n) before[next[gone]] = s.place;
    look(s.place);
    if (s.place > 0) look(before[s.place]);
  }
  for (std::size_t i = 0; i < n; i = next[i]) tokens.push_back(at[i]);
}

std::vector<std::int32_t> BytePairs::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  struct Part {
    std::size_t begin, end;
  };
  std::unordered_map<std::string_view, Part> seen;  // the place in `tokens` where a word was first encoded
  for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
    const std::string_view word = text.substr(i, n = word_bytes(text, i));
    const auto [known, is_new] = seen.try_emplace(word, Part{tokens.size(), 0});
    Part& part = known->second;
    for (std::size_t k = part.begin; k < part.end; ++k) tokens.push_back(tokens[k]);
    if (is_new) encode_word(word, tokens), part.end = tokens.size();
  }
  return tokens;
}

std::string BytePairs::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t number : tokens) {
    require<DataError>(number >= 0 && number < size(), "bpe: there is no token ", number, " in a vocabulary of ",
                       size(), ".");
    text += token(number);
  }
  return text;
}

}  // namespace laconic
