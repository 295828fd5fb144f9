#include "data/synthetic_text.h"

#include <array>
#include <charconv>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace laconic {
namespace {

constexpr std::uint64_t kSeed = 1;                                          // not a run's --seed
constexpr std::uint64_t kFollowers = 3, kTrainText = 4, kValidText = 5, kTestText = 6;  // first part of the random key
constexpr std::uint32_t kShortest = 3, kLongest = 15;                       // words of a sentence

/// "bako": a consonant and a vowel for each figure of a number in base 50.
std::string spelled(std::int64_t number) {
  const std::int64_t first = number % 50, second = (number / 50 + 17 * first) % 50, third = number / 2500;
  std::string word;
  for (const std::int64_t syllable : {first, second, third - 1}) {
    if (syllable < 0) break;
    word += "bdfgklmnrs"[syllable % 10];
    word += "aeiou"[syllable / 10];
  }
  return word;
}

class Language {
 public:
  explicit Language(std::int64_t words) : words_(static_cast<std::uint32_t>(words)) {
    for (std::size_t k = 0; k < followers_.size(); ++k) {
      std::vector<std::uint32_t>& order = followers_[k];
      order.resize(words_);
      std::iota(order.begin(), order.end(), 0u);
      Random random(kSeed, Purpose::synthetic, kFollowers, k);
      for (std::uint32_t i = words_; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    }
  }

  std::vector<std::int32_t> write(std::int64_t tokens, std::uint64_t part, Vocabulary& vocabulary) const {
    std::vector<std::int32_t> text;
    Random random(kSeed, Purpose::synthetic, part);
    while (static_cast<std::int64_t>(text.size()) < tokens) {
      std::uint32_t word = random.below(4);  // few words begin a sentence
      for (std::uint32_t n = 1;; ++n) {
        text.push_back(vocabulary.add(spelled(word)));
        const std::uint32_t draw = random.below(8);
        if (n == kLongest || (n >= kShortest && random.below(8) == 0)) break;
        word = followers_[draw < 4 ? 0 : draw < 6 ? 1 : draw - 4][word];
      }
      text.push_back(vocabulary.add(Vocabulary::kEnd));
    }
    text.resize(static_cast<std::size_t>(tokens));
    return text;
  }

 private:
  std::uint32_t words_;
  std::array<std::vector<std::uint32_t>, 4> followers_;  // permutations, so that every word follows some
};

}  // namespace

TextDataset synthetic_text(std::int64_t train, std::int64_t words) {
  require<UsageError>(train >= 100 && train <= 10000000 && words >= 4 && words <= 10000, "synthetic text: ", train,
                      " words of training text and ", words,
                      " different ones asked for; they must be 100 to 10,000,000 and 4 to ", "10,000 (--data).");
  const Language language(words);
  TextDataset data;
  data.name = "synthetic";
  data.train = language.write(train, kTrainText, data.vocabulary);
  const std::int32_t known = data.vocabulary.size();
  data.valid = language.write(train / 10, kValidText, data.vocabulary);
  data.test = language.write(train / 10, kTestText, data.vocabulary);
  data.close_vocabulary(known);
  return data;
}

TextDataset synthetic_text_named(const std::string& data) {
  if (data.find(':') == std::string::npos) return synthetic_text();
  const char *at = data.data() + data.find(':') + 1, *end = data.data() + data.size();
  std::int64_t sizes[2] = {};
  bool ok = true;
  for (int i = 0; i < 2 && ok; ++i) {
    const auto [next, error] = std::from_chars(at, end, sizes[i]);
    ok = error == std::errc() && (i == 0 ? next != end && *next == ',' : next == end);
    at = next + (i == 0);
  }
  require<UsageError>(ok, "--data: ", data,
                      " is not synthetic:TRAIN,WORDS with two numbers. Example: synthetic:100000,200.");
  return synthetic_text(sizes[0], sizes[1]);
}

}  // namespace laconic
