#include "data/bpe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>

#include "core/base/error.h"
#include "data/bpe_alphabet.h"
#include "data/input_file.h"

namespace laconic {
namespace {

constexpr std::int64_t kRarest = 2;  // pairs that come less often are not learned

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
  for (const std::uint8_t byte : bytes_in_alphabet_order()) pairs.add(std::string(1, static_cast<char>(byte)));
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
  Seen seen;
  encode_around(0, text, tokens, seen);
  return tokens;
}

void BytePairs::encode_around(std::size_t pass, std::string_view text, std::vector<std::int32_t>& tokens,
                              Seen& seen) const {
  if (pass == whole_.size()) return encode_words(text, tokens, seen);
  std::size_t begin = 0;  // of what is still to be encoded
  std::array<std::vector<std::int32_t>, 256> by_first_byte;
  for (const std::int32_t number : whole_[pass])
    by_first_byte[static_cast<std::uint8_t>(token(number)[0])].push_back(number);
  if (!whole_[pass].empty())
    for (std::size_t i = 0; i < text.size();) {
      std::int32_t longest = -1;
      for (const std::int32_t number : by_first_byte[static_cast<std::uint8_t>(text[i])])
        if (text.substr(i).starts_with(token(number)) && (longest < 0 || token(number).size() > token(longest).size()))
          longest = number;
      if (longest < 0) {
        ++i;
        continue;
      }
      encode_around(pass + 1, text.substr(begin, i - begin), tokens, seen);
      tokens.push_back(longest);
      begin = i += token(longest).size();
    }
  encode_around(pass + 1, text.substr(begin), tokens, seen);
}

void BytePairs::encode_words(std::string_view text, std::vector<std::int32_t>& tokens, Seen& seen) const {
  for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
    const std::string_view word = text.substr(i, n = word_bytes(text, i));
    const auto [known, is_new] = seen.try_emplace(word, Part{tokens.size(), 0});
    Part& part = known->second;
    for (std::size_t k = part.begin; k < part.end; ++k) tokens.push_back(tokens[k]);
    if (is_new) encode_word(word, tokens), part.end = tokens.size();
  }
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
