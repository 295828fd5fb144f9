// Blocks of a text: drawn for training, one behind the other for evaluation, against a slow obvious reading.
#include "data/text_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/base/random.h"
#include "data/text.h"
#include "error_of.h"

namespace laconic {
namespace {

TEST(Random, DrawsEvenlyWhat32BitsCannotHold) {
  // Of 2^64 values a quarter is left over: taken modulo n, the first third would come half the time.
  constexpr std::uint64_t kN = std::uint64_t{3} << 62;
  constexpr int kDraws = 30'000;
  Random random(1, Purpose::blocks);
  int thirds[3] = {};
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t drawn = random.below_large(kN);
    ASSERT_LT(drawn, kN);
    ++thirds[drawn >> 62];
  }
  for (const int third : thirds) EXPECT_NEAR(third, kDraws / 3, 5 * std::sqrt(kDraws * 2.0 / 9));
  for (const std::uint32_t n : {1u, 7u, 0xFFFFFFFFu}) {
    Random same = random;
    EXPECT_EQ(random.below_large(n), same.below(n));
  }
}

/// Word i is the number i, so that a word tells its place.
std::vector<std::int32_t> counted_words(std::int64_t n) {
  std::vector<std::int32_t> text(static_cast<std::size_t>(n));
  std::iota(text.begin(), text.end(), 0);
  return text;
}

std::vector<std::int64_t> numbers_of(const Tensor& t) {
  return {t.data<std::int64_t>(), t.data<std::int64_t>() + t.elements()};
}

/// Where the blocks of a batch begin; checks that what follows is what follows.
std::vector<std::int64_t> starts_of(const TextBlocks::Batch& batch, std::int64_t length) {
  const auto x = numbers_of(batch.x), next = numbers_of(batch.next);
  EXPECT_EQ(batch.x.shape(), (Shape{std::ssize(x) / length, length}));
  EXPECT_EQ(batch.next.shape(), Shape{std::ssize(x)});
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < std::ssize(x); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i % length == 0) starts.push_back(x[at]);
    if (i < batch.counted) {
      EXPECT_EQ(x[at], starts.back() + i % length);
      EXPECT_EQ(next[at], x[at] + 1);
    }
  }
  return starts;
}

TEST(TextBlocks, TrainsOnWhatTheKeyDrawsWhateverTheNumberOfWorkers) {
  const auto text = counted_words(50);
  for (const int workers : {1, 2, 3, 6})
    for (std::int64_t step = 0; step < 20; ++step) {
      std::vector<std::int64_t> all, expected;
      for (int rank = 0; rank < workers; ++rank) {
        const auto blocks =
            TextBlocks::training(text, {.batch = 6 / workers, .length = 8, .ranks = workers, .rank = rank}, 3);
        const auto batch = blocks.batch(step);
        EXPECT_EQ(batch.counted, 6 / workers * 8);
        const auto starts = starts_of(batch, 8);
        all.insert(all.end(), starts.begin(), starts.end());
      }
      for (std::uint64_t sample = 0; sample < 6; ++sample)
        expected.push_back(Random(3, Purpose::blocks, static_cast<std::uint64_t>(step), sample).below(42));
      EXPECT_EQ(all, expected);
    }
}

TEST(TextBlocks, TrainsOnEveryPlaceAboutEquallyOften) {
  const auto text = counted_words(12);
  const auto blocks = TextBlocks::training(text, {.batch = 50, .length = 4}, 1);
  std::vector<int> times(8);  // 0 … n - T - 1
  for (std::int64_t step = 0; step < 80; ++step)
    for (const std::int64_t start : starts_of(blocks.batch(step), 4)) ++times.at(static_cast<std::size_t>(start));
  for (const int t : times) EXPECT_NEAR(t, 500, 100);
}

TEST(TextBlocks, OtherSeedsDrawOthers) {
  const auto text = counted_words(1000);
  const TextBlocks::Options o{.batch = 9, .length = 4};
  const auto of = [&](std::uint64_t seed, std::int64_t step) {
    return starts_of(TextBlocks::training(text, o, seed).batch(step), 4);
  };
  EXPECT_EQ(of(1, 7), of(1, 7));
  EXPECT_NE(of(1, 7), of(1, 8));
  EXPECT_NE(of(1, 7), of(2, 7));
}

TEST(TextBlocks, ATextOfOneBlockHasOneBlock) {
  const auto text = counted_words(9);
  const auto blocks = TextBlocks::training(text, {.batch = 3, .length = 8}, 1);
  EXPECT_EQ(starts_of(blocks.batch(5), 8), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(blocks.batches(), 1);
}

TEST(TextBlocks, AnEpochForetellsAboutAsManyTokensAsThereAre) {
  const auto batches = [](std::int64_t n, std::int64_t batch, int ranks) {
    const auto text = counted_words(n);
    return TextBlocks::training(text, {.batch = batch, .length = 10, .ranks = ranks}, 1).batches();
  };
  EXPECT_EQ(batches(401, 2, 4), 5);
  EXPECT_EQ(batches(400, 2, 4), 4);
  EXPECT_EQ(batches(401, 8, 1), 5);
  EXPECT_EQ(batches(80, 8, 1), 1);
  EXPECT_EQ(batches(80, std::int64_t{1} << 62, 1), 1);
}

TEST(TextBlocks, EvaluatesEveryTokenButTheFirstOnceWhateverTheNumberOfWorkers) {
  for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 40, 41, 42})
    for (const int workers : {1, 2, 3, 9})
      for (const std::int64_t batch : {1, 2, 100}) {
        SCOPED_TRACE(std::to_string(n) + " tokens, " + std::to_string(workers) + " workers, " + std::to_string(batch));
        const auto text = counted_words(n);
        std::vector<std::int64_t> foretold;
        for (int rank = 0; rank < workers; ++rank) {
          const auto blocks =
              TextBlocks::evaluation(text, {.batch = batch, .length = 8, .ranks = workers, .rank = rank});
          for (std::int64_t i = 0; i < blocks.batches(); ++i) {
            const auto b = blocks.batch(i);
            for (const std::int64_t start : starts_of(b, 8)) EXPECT_EQ(start % 8, 0);
            EXPECT_LE(b.x.shape()[0], batch);
            const auto next = numbers_of(b.next);
            foretold.insert(foretold.end(), next.begin(), next.begin() + b.counted);
            for (const std::int64_t token : numbers_of(b.x)) EXPECT_LT(token, n);
            for (const std::int64_t token : next) EXPECT_LT(token, n);
          }
        }
        std::vector<std::int64_t> expected;
        for (std::int64_t i = 1; i < n; ++i) expected.push_back(i);
        EXPECT_EQ(foretold, expected);
      }
}

TEST(TextBlocks, SaysWhatMakesNoSense) {
  const auto text = counted_words(8);
  EXPECT_EQ(error_of<DataError>([&] { TextBlocks::training(text, {.batch = 1, .length = 8}, 1); }),
            "the training text has 8 tokens, and a block of 8 with what follows it needs one more than that. Give a "
            "longer text, or shorter blocks.");
  EXPECT_NE(error_of<UsageError>([&] { TextBlocks::training(text, {.batch = 0, .length = 2}, 1); }), "");
  EXPECT_NE(error_of<UsageError>([&] { TextBlocks::evaluation(text, {.batch = 1, .length = 0}); }), "");
  EXPECT_NE(error_of<UsageError>([&] { TextBlocks::evaluation(text, {.ranks = 2, .rank = 2}); }), "");
}

}  // namespace
}  // namespace laconic
