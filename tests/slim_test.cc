#include "compress/slim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "compress/select/random_subset.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

std::vector<float> values_of(std::size_t n, std::uint64_t seed) {
  std::vector<float> x(n);
  Random random(seed, Purpose::test, 1, n);
  for (float& v : x) v = random.normal();
  return x;
}

TEST(Slim, SharesAreThoseAskedFor) {
  for (const auto& [alpha, explore] :
       {std::pair{0.3, 0.15}, {0.2, 0.1}, {0.2, 0.0}, {0.2, 0.2}, {1.0, 0.5}, {1.0, 0.0}})
    for (const std::size_t n : {1, 2, 7, 1000}) {
      const SlimRules rules{.alpha = alpha, .explore = explore};
      const std::size_t core = core_elements(rules, n), explorer = explorer_elements(rules, n);
      EXPECT_LE(core + explorer, n);
      EXPECT_GE(core + explorer, 1u);  // nothing is forgotten for being small
      EXPECT_NEAR(static_cast<double>(core + explorer), alpha * static_cast<double>(n), 1);
      if (alpha == 1) {
        EXPECT_EQ(core + explorer, n);
      }
    }
  for (const SlimRules& wrong :
       {SlimRules{.alpha = 0}, SlimRules{.alpha = 1.1}, SlimRules{.alpha = 0.2, .explore = 0.3},
        SlimRules{.explore = -0.1}, SlimRules{.core_every = 0}, SlimRules{.alpha = std::nan("")}})
    EXPECT_THROW(require_sensible(wrong), UsageError);
}

TEST(Slim, TheExplorerLiesOutsideTheCoreWithoutRepetition) {
  for (std::uint64_t round = 0; round < 200; ++round) {
    Random random(9, Purpose::test, 2, round);
    const std::size_t n = 1 + random.below(300);
    std::vector<std::uint32_t> core;
    for (std::uint32_t i = 0; i < n; ++i)
      if (random.below(3) == 0) core.push_back(i);
    const std::size_t count = random.below(static_cast<std::uint32_t>(n - core.size() + 1));
    std::vector<std::uint32_t> explorer;
    random_subset(n, count, slice(std::as_const(core)), SlimKey{.seed = 1, .round = round}.random(), explorer);
    ASSERT_EQ(explorer.size(), count);
    EXPECT_TRUE(std::is_sorted(explorer.begin(), explorer.end()));
    EXPECT_EQ(std::adjacent_find(explorer.begin(), explorer.end()), explorer.end());
    for (const std::uint32_t key : explorer) {
      EXPECT_LT(key, n);
      EXPECT_FALSE(std::binary_search(core.begin(), core.end(), key));
    }
  }
}

// Chi-squared with a fixed seed: 60 places outside the core, 4000 draws of 6; the mean of the statistic is 54, its
// standard deviation about 10.
TEST(Slim, TheExplorerIsUniformOutsideTheCore) {
  constexpr std::size_t n = 80, count = 6, draws = 4000;
  std::vector<std::uint32_t> core;
  for (std::uint32_t i = 0; i < n; i += 4) core.push_back(i);
  std::vector<double> hits(n);
  std::vector<std::uint32_t> explorer;
  for (std::uint64_t round = 0; round < draws; ++round) {
    random_subset(n, count, slice(std::as_const(core)),
                  SlimKey{.seed = 3, .round = round, .tensor = 2, .who = 1}.random(), explorer);
    for (const std::uint32_t key : explorer) ++hits[key];
  }
  const double expected = static_cast<double>(count * draws) / static_cast<double>(n - core.size());
  double chi = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 4 == 0) {
      EXPECT_EQ(hits[i], 0);
    } else {
      chi += (hits[i] - expected) * (hits[i] - expected) / expected;
    }
  }
  EXPECT_LT(chi, 54 + 40);
  EXPECT_GT(chi, 54 - 40);
}

TEST(Slim, DrawsDifferByRoundTensorAndWho) {
  const std::vector<std::uint32_t> none;
  const auto drawn = [&](const SlimKey& key) {
    std::vector<std::uint32_t> explorer;
    random_subset(1000, 50, slice(none), key.random(), explorer);
    return explorer;
  };
  const SlimKey key{.seed = 1, .round = 2, .tensor = 3, .who = 4};
  EXPECT_EQ(drawn(key), drawn(key));
  for (const SlimKey& other : {SlimKey{2, 2, 3, 4}, SlimKey{1, 3, 3, 4}, SlimKey{1, 2, 4, 4}, SlimKey{1, 2, 3, 0}})
    EXPECT_NE(drawn(key), drawn(other));
}

TEST(SlimSet, TheCoreIsTheLargestAndStaysUntilItIsDue) {
  const SlimRules rules{.alpha = 0.3, .explore = 0.1, .core_every = 3};
  SlimSet set;
  std::vector<std::uint32_t> first;
  for (std::uint64_t round = 0; round < 7; ++round) {
    const std::vector<float> x = values_of(200, round);
    set.choose(rules, slice(x), {.seed = 5, .round = round});
    std::vector<std::uint32_t> order(x.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
    order.resize(40);
    std::sort(order.begin(), order.end());
    if (round % 3 == 0) {
      EXPECT_EQ(set.core(), order);
      EXPECT_TRUE(set.core_is_new());
      first = order;
      set.core_was_sent();
    } else {
      EXPECT_EQ(set.core(), first);
      EXPECT_FALSE(set.core_is_new());
    }
    EXPECT_EQ(set.explorer().size(), 20u);
  }
}

TEST(SlimSet, WhatIsDrawnAheadIsWhatWouldHaveBeenDrawn) {
  const SlimRules rules{.alpha = 0.3, .explore = 0.1, .core_every = 3};
  const std::vector<float> x = values_of(1000, 1);
  SlimSet now, ahead, wrong;
  for (std::uint64_t round = 0; round < 7; ++round) {
    const SlimKey key{.seed = 3, .round = round, .tensor = 2, .who = 1},
        next{.seed = 3, .round = round + 1, .tensor = 2, .who = 1};
    for (SlimSet* set : {&now, &ahead, &wrong}) set->choose(rules, slice(x), key);
    const std::vector<std::uint32_t> drawn = now.explorer();
    for (const SlimSet* set : {&ahead, &wrong}) {
      EXPECT_EQ(set->core(), now.core());
      EXPECT_EQ(set->explorer(), drawn) << round;
    }
    ahead.draw_ahead(rules, x.size(), next);
    EXPECT_EQ(ahead.explorer(), drawn) << "this round's stays until the next one's is asked for";
    wrong.draw_ahead(rules, x.size(), key);  // not the round that comes
  }
}

/// What a sender gives, in the order of the message.
std::vector<float> gathered(const SlimSet& set, const std::vector<float>& x) {
  std::vector<float> values;
  for (const auto* keys : {&set.core(), &set.explorer()})
    for (const std::uint32_t key : *keys) values.push_back(x[key]);
  std::vector<float> same;
  set.gather(slice(x), same);
  EXPECT_EQ(same, values);
  return values;
}

TEST(SlimMessage, BothEndsHaveTheSameKeysAndValues) {
  for (const bool keys_sent : {false, true})
    for (const double explore : {0.0, 0.1, 0.3}) {
      const SlimFormat format{.rules = {.alpha = 0.3, .explore = explore, .core_every = 4, .keys_sent = keys_sent},
                              .n = 500};
      SlimSet set;
      SlimReader reader;
      for (std::uint64_t round = 0; round < 9; ++round) {
        const std::vector<float> x = values_of(500, round);
        const SlimKey key{.seed = 8, .round = round, .tensor = 1, .who = 2};
        set.choose(format.rules, slice(x), key);
        const bool with_keys = set.core_is_new();
        Bytes message;
        const std::vector<float> values = gathered(set, x);
        write_slim(format, set, with_keys, static_cast<std::uint32_t>(round), slice(values), {}, message);
        set.core_was_sent();
        EXPECT_LE(message.size(), format.max_bytes());
        const std::size_t core = core_elements(format.rules, 500), explorer = explorer_elements(format.rules, 500);
        EXPECT_EQ(message.size(),
                  16 + 4 * (core + explorer) + (with_keys ? 4 * core : 0) + (keys_sent ? 4 * explorer : 0));
        ASSERT_TRUE(reader.read(format, message.slice(), key));
        EXPECT_EQ(reader.core(), set.core());
        EXPECT_EQ(reader.explorer(), set.explorer());
        EXPECT_EQ(reader.values(), values);
        std::vector<float> merged(500, 7), added(500);
        reader.overwrite(slice(merged));
        reader.add_to(2, slice(added));
        for (std::uint32_t i = 0; i < 500; ++i) {
          const bool mine = std::binary_search(set.core().begin(), set.core().end(), i) ||
                            std::binary_search(set.explorer().begin(), set.explorer().end(), i);
          EXPECT_EQ(merged[i], mine ? x[i] : 7);
          EXPECT_EQ(added[i], mine ? 2 * x[i] : 0);
        }
      }
    }
}

TEST(SlimMessage, AnUnknownCoreIsAskedForAgain) {
  const SlimFormat format{.rules = {.alpha = 0.4, .explore = 0.2}, .n = 100};
  const std::vector<float> x = values_of(100, 1);
  const SlimKey key{.seed = 8};
  SlimSet set;
  set.choose(format.rules, slice(x), key);
  Bytes bare, full;
  write_slim(format, set, false, 0, slice(gathered(set, x)), {}, bare);
  write_slim(format, set, true, 0, slice(gathered(set, x)), {}, full);
  SlimReader reader;
  EXPECT_FALSE(reader.read(format, bare.slice(), key));
  EXPECT_TRUE(reader.read(format, full.slice(), key));
  EXPECT_TRUE(reader.read(format, bare.slice(), key));
  reader.forget();
  EXPECT_FALSE(reader.read(format, bare.slice(), key));
}

TEST(SlimMessage, BadMessagesAreRefused) {
  const SlimFormat format{.rules = {.alpha = 0.4, .explore = 0.2, .keys_sent = true}, .n = 100};
  const std::vector<float> x = values_of(100, 1);
  SlimSet set;
  set.choose(format.rules, slice(x), {});
  Bytes message;
  write_slim(format, set, true, 0, slice(gathered(set, x)), {}, message);
  for (std::size_t cut = 0; cut < message.size(); ++cut)
    EXPECT_THROW(SlimReader().read(format, message.slice().first(cut), {}), DataError) << cut;
  EXPECT_THROW(SlimReader().read(format, message.slice(), {.round = 1}), DataError);
  for (const std::size_t at : {4u, 8u, 16u, 20u, 100u}) {  // kind, signature, core keys, explorer keys
    Bytes bent;
    std::memcpy(bent.append(message.size()).data(), message.data(), message.size());
    bent.data()[at + 3] = std::byte{0xff};
    EXPECT_THROW(SlimReader().read(format, bent.slice(), {}), DataError) << at;
  }
  Bytes twice;  // the last key of the core in the explorer too
  std::memcpy(twice.append(message.size()).data(), message.data(), message.size());
  const std::size_t explorer = 16 + 4 * set.core().size();
  std::vector<std::uint32_t> keys = set.explorer();
  keys.back() = set.core().back() > keys[keys.size() - 2] ? set.core().back() : keys.back();
  ASSERT_NE(keys, set.explorer());
  std::memcpy(twice.data() + explorer, keys.data(), 4 * keys.size());
  EXPECT_THROW(SlimReader().read(format, twice.slice(), {}), DataError);
}

TEST(Slim, AStepIsPutByAndTheOldValuesComeBack) {
  std::vector<float> value{1, 2, 3}, before{0.5f, 2, 4}, delta{1, 1, 1};
  put_step_by(slice(value), slice(before), slice(delta));
  EXPECT_EQ(value, (std::vector<float>{0.5f, 2, 4}));
  EXPECT_EQ(before, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(delta, (std::vector<float>{1.5f, 1, 0}));
  put_step_by(slice(before), slice(value), slice(delta), 4);
  EXPECT_EQ(before, (std::vector<float>{0.5f, 2, 4}));
  EXPECT_EQ(delta, (std::vector<float>{3.5f, 1, -4}));
}

using SlimOnCuda = CudaTest;

TEST_F(SlimOnCuda, ChoosesGathersAndMergesAsOnTheCpu) {
  const std::size_t n = 9'001;
  const SlimRules rules{.alpha = 0.3, .explore = 0.15, .core_every = 2};
  const SlimFormat format{.rules = rules, .n = n};
  SlimSet cpu, cuda;
  SlimReader reader;
  for (std::uint64_t round = 0; round < 3; ++round) {
    const SlimKey key{.seed = 2, .round = round};
    const std::vector<float> x = values_of(n, round);
    const Placed<float> there(x, kCuda, 1);
    std::vector<float> values, from_there;
    cpu.choose(rules, slice(x), key);
    cuda.choose(rules, there, key);
    EXPECT_EQ(cuda.core(), cpu.core());
    EXPECT_EQ(cuda.explorer(), cpu.explorer());
    EXPECT_EQ(cuda.signature(), cpu.signature());
    cpu.gather(slice(x), values);
    cuda.gather(there, from_there);
    EXPECT_EQ(from_there, values);
    Bytes message;
    write_slim(format, cpu, cpu.core_is_new(), static_cast<std::uint32_t>(round), slice(std::as_const(values)), {},
               message);
    cpu.core_was_sent();
    ASSERT_TRUE(reader.read(format, message.slice(), key));
    std::vector<float> dense = values_of(n, 100);
    const Placed<float> dense_there(dense, kCuda);
    reader.add_to(0.3f, slice(dense)), reader.add_to(0.3f, dense_there);
    EXPECT_EQ(host_values(dense_there.slice()), dense);
    reader.overwrite(slice(dense)), reader.overwrite(dense_there);
    EXPECT_EQ(host_values(dense_there.slice()), dense);
  }
}

TEST_F(SlimOnCuda, PutsStepsByAsOnTheCpu) {
  std::vector<float> value = values_of(1000, 1), before = values_of(1000, 2), delta = values_of(1000, 3);
  const Placed<float> v(value, kCuda), b(before, kCuda), d(delta, kCuda);
  put_step_by(slice(value), slice(before), slice(delta), 0.5f);
  put_step_by(v, b, d, 0.5f);
  EXPECT_EQ(host_values(v.slice()), value);
  EXPECT_EQ(host_values(b.slice()), before);
  EXPECT_EQ(host_values(d.slice()), delta);
}

}  // namespace
}  // namespace laconic::compress
