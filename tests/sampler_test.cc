#include "data/loader.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.h"

namespace laconic {
namespace {

TEST(ShardedSampler, TakesEverySampleExactlyOnceForAnyWorkersAndBatch) {
  for (const std::int64_t n : {1, 7, 64, 100, 1001})
    for (const int N : {1, 2, 3, 4, 7})
      for (const std::int64_t B : {1, 3, 16, 64, 5000})
        for (const bool share : {false, true}) {
          std::vector<int> taken(static_cast<std::size_t>(n));
          for (int k = 0; k < N; ++k) {
            const ShardedSampler s({.samples = n, .ranks = N, .rank = k, .batch = B, .seed = 5, .share = share});
            const auto order = s.order(3);
            for (std::int64_t i = 0; i < s.steps_per_epoch(); ++i) {
              const auto p = s.part(i);
              EXPECT_LE(p.count, B);
              for (std::int64_t j = 0; j < p.count; ++j) ++taken[order[static_cast<std::size_t>(p.first + j)]];
            }
          }
          EXPECT_EQ(taken, std::vector<int>(static_cast<std::size_t>(n), 1)) << n << " samples, N " << N << ", B " << B;
        }
}

TEST(ShardedSampler, TheLastBatchIsShortAndLiterallyCut) {
  // 4 workers, B = 16: global batches of 64; 150 = 2 x 64 + 22: worker 0 has 16 of the last, worker 1 has 6, 2 and 3
  // none.
  const int expected[] = {16, 6, 0, 0};
  for (int k = 0; k < 4; ++k) {
    const ShardedSampler s({.samples = 150, .ranks = 4, .rank = k, .batch = 16});
    ASSERT_EQ(s.steps_per_epoch(), 3);
    EXPECT_EQ(s.part(1).first, 64 + 16 * k);
    EXPECT_EQ(s.part(1).global_first, 64);
    EXPECT_EQ(s.part(1).global_count, 64);
    EXPECT_EQ(s.part(2).count, expected[k]);
    EXPECT_EQ(s.part(2).global_count, 22);
  }
}

TEST(ShardedSampler, FourWorkersTogetherTakeWhatOneTakesWithFourTimesTheBatch) {
  const ShardedSampler one({.samples = 150, .batch = 64, .seed = 9});
  for (int k = 0; k < 4; ++k) {
    const ShardedSampler s({.samples = 150, .ranks = 4, .rank = k, .batch = 16, .seed = 9});
    EXPECT_EQ(s.order(2), one.order(2));
    EXPECT_EQ(s.steps_per_epoch(), one.steps_per_epoch());
  }
}

TEST(ShardedSampler, EvaluationGivesContiguousNearlyEqualSharesInOrder) {
  std::int64_t next = 0;
  for (int k = 0; k < 3; ++k) {
    const ShardedSampler s({.samples = 11, .ranks = 3, .rank = k, .batch = 2, .shuffle = false, .share = true});
    std::int64_t mine = 0;
    for (std::int64_t i = 0; i < s.steps_per_epoch(); ++i) {
      EXPECT_EQ(s.part(i).first, next);
      next += s.part(i).count, mine += s.part(i).count;
    }
    EXPECT_EQ(mine, k < 2 ? 4 : 3);
  }
  EXPECT_EQ(next, 11);
}

TEST(ShardedSampler, ShufflesAnewEveryEpochAndOnlyIfAsked) {
  const ShardedSampler s({.samples = 1000, .seed = 1}), other({.samples = 1000, .seed = 2});
  EXPECT_EQ(s.order(0), s.order(0));
  EXPECT_NE(s.order(0), s.order(1));
  EXPECT_NE(s.order(0), other.order(0));
  std::vector<std::uint32_t> plain(1000);
  std::iota(plain.begin(), plain.end(), 0u);
  EXPECT_EQ(ShardedSampler({.samples = 1000, .shuffle = false}).order(4), plain);
}

TEST(ShardedSampler, EveryPlaceIsEquallyLikelyForASample) {
  // 6 samples, 3000 epochs: each (sample, place) is expected 500 times, standard deviation 20.4; 5 of those allowed.
  std::vector<int> count(36);
  const ShardedSampler s({.samples = 6, .seed = 3});
  for (int epoch = 0; epoch < 3000; ++epoch) {
    const auto order = s.order(epoch);
    for (std::size_t place = 0; place < 6; ++place) ++count[order[place] * 6 + place];
  }
  for (const int c : count) EXPECT_NEAR(c, 500, 102);
}

TEST(ShardedSampler, RefusesNumbersThatMakeNoSense) {
  EXPECT_THROW(ShardedSampler({.samples = 10, .batch = 0}), UsageError);
  EXPECT_THROW(ShardedSampler({.samples = 10, .ranks = 2, .rank = 2}), UsageError);
  EXPECT_THROW(ShardedSampler({.samples = std::int64_t{1} << 33}), UsageError);
  EXPECT_EQ(ShardedSampler({.samples = 0}).steps_per_epoch(), 0);
  EXPECT_THROW(ShardedSampler({.samples = 0}).part(0), ShapeError);
  EXPECT_EQ(ShardedSampler({.samples = 9, .ranks = 2, .batch = std::int64_t{1} << 62}).steps_per_epoch(), 1);
}

}  // namespace
}  // namespace laconic
