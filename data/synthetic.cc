#include "data/synthetic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace laconic {
namespace {

constexpr char kName[] = "synthetic";
constexpr int kWaves = 3;                                      // cosines in a pattern
constexpr int kMaxShift = 3;                                   // pixels, either way
// First part of the random key.
constexpr std::uint64_t kPatterns = 0, kTrain = 1, kTest = 2, kFollowers = 3, kTrainText = 4, kValidText = 5,
                        kTestText = 6;

/// [channels, side, side], each value in [-127, 127]. Periodic, so that a shift may wrap round. Integers from here on,
/// so that no compiler's rounding changes a byte.
std::vector<int> make_pattern(const ImageDataset& data, std::uint64_t seed, int label) {
  Random random(seed, Purpose::synthetic, kPatterns, static_cast<std::uint64_t>(label));
  std::vector<float> pattern(static_cast<std::size_t>(data.image_bytes()));
  for (int c = 0; c < data.channels; ++c)
    for (int w = 0; w < kWaves; ++w) {
      const auto fy = static_cast<float>(random.below(4)), fx = static_cast<float>(1 + random.below(3));
      const float phase = random.uniform();
      for (int y = 0; y < data.height; ++y)
        for (int x = 0; x < data.width; ++x)
          pattern[static_cast<std::size_t>((c * data.height + y) * data.width + x)] +=
              std::cos(2 * std::numbers::pi_v<float> *
                       (fy * static_cast<float>(y) / static_cast<float>(data.height) +
                        fx * static_cast<float>(x) / static_cast<float>(data.width) + phase)) /
              kWaves;
    }
  std::vector<int> rounded;
  for (const float v : pattern) rounded.push_back(static_cast<int>(std::lround(127 * v)));
  return rounded;
}

ImageSplit make_split(const ImageDataset& data, const std::vector<std::vector<int>>& patterns, std::int64_t count,
                      std::uint64_t seed, std::uint64_t part) {
  ImageSplit split;
  split.pixels.resize(static_cast<std::size_t>(count * data.image_bytes()));
  split.labels.resize(static_cast<std::size_t>(count));
  std::uint8_t* out = split.pixels.data();
  for (std::int64_t i = 0; i < count; ++i) {
    Random random(seed, Purpose::synthetic, part, static_cast<std::uint64_t>(i));
    const auto label = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(data.classes)));
    const int dy = static_cast<int>(random.below(2 * kMaxShift + 1)) - kMaxShift + data.height;
    const int dx = static_cast<int>(random.below(2 * kMaxShift + 1)) - kMaxShift + data.width;
    const int contrast = 40 + static_cast<int>(random.below(51));
    split.labels[static_cast<std::size_t>(i)] = label;

    const int* pattern = patterns[static_cast<std::size_t>(label)].data();
    std::uint32_t noise = 0;
    int left = 0;
    for (int c = 0; c < data.channels; ++c)
      for (int y = 0; y < data.height; ++y) {
        const int* row = pattern + (c * data.height + (y + dy) % data.height) * data.width;
        for (int x = 0, from = dx % data.width; x < data.width; ++x) {
          if (left == 0) noise = random.bits(), left = 4;
          const int value = 128 + contrast * row[from] / 127 + 3 * (static_cast<int>(noise & 255u) - 128) / 8;
          *out++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
          noise >>= 8, --left;
          if (++from == data.width) from = 0;
        }
      }
  }
  return split;
}

ImageDataset make(int channels, int side, int classes, const SyntheticOptions& options) {
  require<UsageError>(options.train >= 1 && options.test >= 1, "synthetic: ", options.train, " training and ",
                      options.test, " test images asked for, at least 1 of each is needed.");
  ImageDataset data;
  data.name = kName;
  data.channels = channels, data.height = data.width = side, data.classes = classes;
  data.mean.assign(static_cast<std::size_t>(channels), 0.5f);
  data.std.assign(static_cast<std::size_t>(channels), 0.25f);
  std::vector<std::vector<int>> patterns;
  for (int label = 0; label < classes; ++label) patterns.push_back(make_pattern(data, options.seed, label));
  data.train = make_split(data, patterns, options.train, options.seed, kTrain);
  data.test = make_split(data, patterns, options.test, options.seed, kTest);
  return data;
}

/// The numbers behind "synthetic:", with commas between; "synthetic" alone leaves them. Returns whether that is all.
bool read_numbers(const std::string& data, std::initializer_list<std::int64_t*> numbers) {
  if (data == kName) return true;
  const char *at = data.data() + sizeof kName - 1, *end = data.data() + data.size();  // its colon
  for (std::int64_t* const value : numbers) {
    if (at == end || *at++ != (value == *numbers.begin() ? ':' : ',')) return false;
    const auto [next, error] = std::from_chars(at, end, *value);
    if (error != std::errc()) return false;
    at = next;
  }
  return at == end;
}

bool within(std::int64_t value, std::int64_t least, std::int64_t most) { return value >= least && value <= most; }

}  // namespace

ImageDataset synthetic_mnist(const SyntheticOptions& options) { return make(1, 28, 10, options); }
ImageDataset synthetic_cifar10(const SyntheticOptions& options) { return make(3, 32, 10, options); }
ImageDataset synthetic_cifar100(const SyntheticOptions& options) { return make(3, 32, 100, options); }
ImageDataset synthetic_photos(const SyntheticOptions& options) {
  return make(3, 64, static_cast<int>(options.classes), options);
}

bool is_synthetic(const std::string& data) { return data == kName || data.starts_with(std::string(kName) + ":"); }

SyntheticOptions synthetic_sizes(const std::string& data, const SyntheticOptions& whole, bool with_classes) {
  SyntheticOptions sizes = whole;
  const bool three = with_classes && std::count(data.begin(), data.end(), ',') >= 2;
  const bool ok = (three ? read_numbers(data, {&sizes.train, &sizes.test, &sizes.classes})
                         : read_numbers(data, {&sizes.train, &sizes.test})) &&
                  within(sizes.train, 1, 1000000) && within(sizes.test, 1, 1000000) && within(sizes.classes, 1, 10000);
  require<UsageError>(
      ok, "`data`: ", data,
      three ? " is not synthetic:TRAIN,TEST,CLASSES with numbers from 1, at most 10,000 classes. Example: "
              "synthetic:2000,500,100."
            : " is not synthetic:TRAIN,TEST with two numbers of images from 1 to 1,000,000. Example: "
              "synthetic:2000,500.");
  return sizes;
}

namespace {

constexpr std::uint64_t kSeed = 1;                     // a seed apart from a run's --seed
constexpr std::uint32_t kShortest = 3, kLongest = 15;  // words of a sentence

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
      Random(kSeed, Purpose::synthetic, kFollowers, k).shuffle(order);
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
  require<UsageError>(within(train, 100, 10000000) && within(words, 4, 10000), "synthetic text: ", train,
                      " words of training text and ", words,
                      " different ones asked for; they must be 100 to 10,000,000 and 4 to ", "10,000 (`data`).");
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
  std::int64_t train = 100000, words = 200;
  require<UsageError>(read_numbers(data, {&train, &words}), "`data`: ", data,
                      " is not synthetic:TRAIN,WORDS with two numbers. Example: synthetic:100000,200.");
  return synthetic_text(train, words);
}

}  // namespace laconic
