#include "compress/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "compress/cpu/isa.h"
#include "compress/select_steps.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr Sign kSigns[] = {Sign::any, Sign::positive, Sign::negative};
constexpr Method kTopK[] = {Method::exact,       Method::radix,   Method::radix_histogram,
                            Method::nth_element, Method::trimmed, Method::trimmed_steps};
using Values = std::vector<float>;

/// How far a value is ahead of others; below 0 if it does not compete.
float magnitude(float v, Sign sign) {
  if (sign == Sign::any) return std::abs(v);
  const float m = sign == Sign::positive ? v : -v;
  return m > 0 ? m : -1;
}

/// The slow obvious way: sort all by magnitude, of equal ones by index.
std::vector<std::uint32_t> top_k(const Values& x, std::size_t k, Sign sign) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (magnitude(x[i], sign) >= 0) order.push_back(static_cast<std::uint32_t>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return magnitude(x[a], sign) > magnitude(x[b], sign); });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

void expect_well_formed(const Selection& s, const Values& x, Sign sign) {
  ASSERT_EQ(s.indices.size(), s.values.size());
  for (std::size_t j = 0; j < s.size(); ++j) {
    ASSERT_LT(s.indices[j], x.size());
    ASSERT_TRUE(j == 0 || s.indices[j - 1] < s.indices[j]);
    ASSERT_EQ(s.values[j], x[s.indices[j]]);
    ASSERT_GE(magnitude(s.values[j], sign), 0);
  }
}

Values generated(std::size_t n, std::uint64_t seed, const std::function<float(Random&, std::size_t)>& f) {
  Random random(seed, Purpose::test);
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = f(random, i);
  return x;
}

std::map<std::string, Values> hostile(std::size_t n) {
  std::map<std::string, Values> all;
  const auto normal = [](Random& r, std::size_t) { return r.normal(); };
  all["normal"] = generated(n, 1, normal);
  all["uniform"] = generated(n, 2, [](Random& r, std::size_t) { return r.uniform(-1, 1); });
  all["zero"] = Values(n, 0.0f);
  all["both zeros"] = generated(n, 3, [](Random& r, std::size_t) { return r.below(2) ? 0.0f : -0.0f; });
  all["equal"] = Values(n, -0.5f);
  all["equal but for the sign"] = generated(n, 4, [](Random& r, std::size_t) { return r.below(2) ? 0.5f : -0.5f; });
  all["few values"] = generated(n, 5, [](Random& r, std::size_t) { return static_cast<float>(r.below(5)) - 2; });
  all["mostly zero"] = generated(n, 6, [](Random& r, std::size_t) { return r.below(1000) ? 0.0f : r.normal(); });
  all["denormal"] =
      generated(n, 7, [](Random& r, std::size_t) { return (static_cast<float>(r.below(200)) - 100) * kTiny; });
  all["infinities"] = generated(n, 8, [](Random& r, std::size_t) {
    return r.below(500) ? r.normal() : r.below(2) ? kInf : -kInf;
  });
  all["all infinite"] = Values(n, kInf);
  all["the largest"] =
      generated(n, 9, [](Random& r, std::size_t) { return r.uniform(-1, 1) * std::numeric_limits<float>::max(); });
  all["ascending"] = generated(n, 10, [](Random&, std::size_t i) { return static_cast<float>(i); });
  all["descending"] = generated(n, 11, [n](Random&, std::size_t i) { return -static_cast<float>(n - i); });
  all["heavy tails"] = generated(n, 12, [](Random& r, std::size_t) { return r.normal() * std::exp(3 * r.normal()); });
  Values clustered = all["normal"];
  for (std::size_t i = 0; i < n; ++i) clustered[i] *= std::exp(2 * std::sin(static_cast<float>(i / 4096 * 7)));
  all["clustered"] = clustered;
  Values spike(n, 1e-6f);
  if (n > 2) spike[n / 2] = -1e6f;
  all["one spike"] = spike;
  Values positive = all["normal"];
  for (float& v : positive) v = std::abs(v);
  all["positive"] = positive;
  return all;
}

std::vector<std::size_t> counts_for(std::size_t n) {
  std::vector<std::size_t> ks{0, 1, n / 1000, n / 4, n / 2, n - 1, n};
  std::sort(ks.begin(), ks.end());
  ks.erase(std::unique(ks.begin(), ks.end()), ks.end());
  while (!ks.empty() && ks.back() > n) ks.pop_back();  // n - 1 of n = 0
  return ks;
}

Selection chosen(Method method, const Values& x, std::size_t k, Sign sign = Sign::any) {
  return Selector({.method = method}).select({.values = slice(x), .k = k, .sign = sign});
}

TEST(Selector, TopKIsTheTopKOnHostileInput) {
  for (const std::size_t n : {0, 1, 2, 100, 4097, 70'000})
    for (const auto& [name, x] : hostile(n))
      for (const std::size_t k : counts_for(n))
        for (const Sign sign : kSigns) {
          const auto expected = top_k(x, k, sign);
          for (const Method method : kTopK) {
            SCOPED_TRACE(testing::Message() << to_string(method) << ": " << k << " of " << n << " " << name << ", sign "
                                            << static_cast<int>(sign));
            const Selection s = chosen(method, x, k, sign);
            expect_well_formed(s, x, sign);
            ASSERT_EQ(s.indices, expected);
            if (method != Method::trimmed_steps && !s.indices.empty()) {
              float smallest = kInf;
              for (float v : s.values) smallest = std::min(smallest, magnitude(v, sign));
              EXPECT_EQ(s.threshold, smallest);
            }
          }
        }
}

TEST(Selector, SearchIsTheSearchStepByStepAndNeverMoreThanTwiceK) {
  for (const std::size_t n : {1, 2, 100, 4097, 70'000})
    for (const auto& [name, x] : hostile(n))
      for (const std::size_t k : counts_for(n))
        for (const Sign sign : kSigns) {
          SCOPED_TRACE(testing::Message() << k << " of " << n << " " << name << ", sign " << static_cast<int>(sign));
          const Selection fast = chosen(Method::search, x, k, sign), steps = chosen(Method::search_steps, x, k, sign);
          expect_well_formed(fast, x, sign);
          ASSERT_EQ(fast.indices, steps.indices);
          EXPECT_EQ(fast.threshold, steps.threshold);
          EXPECT_LE(fast.size(), 2 * k);
          EXPECT_GE(fast.size(), std::min(k, top_k(x, k, sign).size()));
        }
}

TEST(Selector, SearchFindsBetweenKAndTwiceKOnOrdinaryValues) {
  for (const char* name : {"normal", "uniform", "clustered", "heavy tails"}) {
    const Values x = hostile(70'000)[name];
    const Selection s = chosen(Method::search, x, 70);
    EXPECT_GE(s.size(), 70u) << name;
    EXPECT_LE(s.size(), 140u) << name;
    EXPECT_EQ(
        static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [&](float v) { return std::abs(v) > s.threshold; })),
        s.size())
        << name;
  }
}

/// A residual that grows by noise and loses what was sent, as in training; `use` gets selector, V, its statistics and
/// the candidates that the residual pass met.
template <class Use>
void simulate(Selector& selector, std::size_t n, std::size_t k, Sign sign, int steps, Use&& use) {
  Values v(n, 0.0f);
  for (int step = 0; step < steps; ++step) {
    const Values g = generated(n, 100 + static_cast<std::uint64_t>(step), [](Random& r, std::size_t i) {
      return r.normal() * (1 + static_cast<float>(i / 5000 % 7)) * (r.below(3) ? 1.0f : 3.0f);
    });
    Candidates candidates;
    selector.prepare(candidates, k, sign);
    ResidualStats stats;
    for (std::size_t first = 0; first < n; first += 30'000) {
      const std::size_t count = std::min<std::size_t>(30'000, n - first);
      stats += accumulate_residual({Slice<const float>(g.data() + first, count),
                                    {},
                                    {},
                                    Slice<float>(v.data() + first, count),
                                    static_cast<std::uint32_t>(first)},
                                   {}, 1.0f, &candidates);
    }
    const Selection s = use(v, stats, candidates);
    clear_sent({}, slice(v), slice(s.indices), true);
  }
}

TEST(Selector, StepAfterStepTheSetsStayExactWithCandidatesOfTheResidualPass) {
  const std::size_t n = 100'000;
  for (const std::size_t k : {100, 10'000})
    for (const Sign sign : kSigns)
      for (const Method method : {Method::exact, Method::trimmed, Method::search}) {
        Selector selector({.method = method});
        int without_a_pass = 0;
        simulate(selector, n, k, sign, 12, [&](const Values& v, const ResidualStats& stats, Candidates& candidates) {
          Selection s =
              selector.select({.values = slice(v), .k = k, .sign = sign, .stats = &stats, .candidates = &candidates});
          if (method == Method::search) {
            Selection expected;
            steps::search(slice(v), k, sign, stats, expected);
            EXPECT_EQ(s.indices, expected.indices);
          } else {
            EXPECT_EQ(s.indices, top_k(v, k, sign));
          }
          expect_well_formed(s, v, sign);
          without_a_pass += s.passes == 0;
          return s;
        });
        EXPECT_GE(without_a_pass, 5) << to_string(method) << " " << k;
      }
}

TEST(Selector, SampledSearchesEveryFifthTimeAndReusesTheThreshold) {
  const std::size_t n = 100'000, k = 100;
  Selector selector({.method = Method::sampled});
  int step = 0;
  float threshold = 0;
  simulate(selector, n, k, Sign::any, 11, [&](const Values& v, const ResidualStats& stats, Candidates& candidates) {
    Selection s = selector.select({.values = slice(v), .k = k, .stats = &stats, .candidates = &candidates});
    Selection expected;
    if (step % 5 == 0) {
      steps::search(slice(v), k, Sign::any, stats, expected);
      threshold = expected.threshold;
    } else {
      for (std::size_t i = 0; i < n && expected.indices.size() < 2 * k; ++i)
        if (std::abs(v[i]) > threshold) expected.indices.push_back(static_cast<std::uint32_t>(i));
    }
    EXPECT_EQ(s.threshold, threshold);
    EXPECT_EQ(s.indices, expected.indices) << step;
    ++step;
    return s;
  });
}

TEST(Selector, SampledSendsNothingWhereNothingReachesTheThreshold) {
  Selector selector({.method = Method::sampled});
  const Values x = hostile(4097)["normal"];
  EXPECT_GE(selector.select({.values = slice(x), .k = 4}).size(), 4u);
  const Values zero(4097, 0.0f);
  EXPECT_EQ(selector.select({.values = slice(zero), .k = 4}).size(), 0u);
  const Values large(4097, 100.0f);  // all are above it: cut by index
  const Selection cut = selector.select({.values = slice(large), .k = 4});
  EXPECT_EQ(cut.indices, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Selector, GoesOnAsItWouldHaveAfterSaveAndLoad) {
  const std::size_t n = 100'000, k = 100;
  for (const Method method : {Method::exact, Method::search, Method::sampled, Method::dgc}) {
    Selector one({.method = method}), other({.method = method});
    int step = 0;
    simulate(one, n, k, Sign::any, 9, [&](const Values& v, const ResidualStats& stats, Candidates& candidates) {
      if (step++ == 4) {
        StateDict saved, again;
        one.save(saved);
        other.load(saved);
        other.save(again);
        const auto words = [](const StateDict& d) {
          const auto w = d.at("selector").slice<std::int64_t>();
          return std::vector<std::int64_t>(w.begin(), w.end());
        };
        EXPECT_EQ(words(saved), words(again));
      }
      Candidates theirs;
      Selection s = one.select({.values = slice(v), .k = k, .stats = &stats, .candidates = &candidates});
      if (step > 4) {
        const Selection t = other.select({.values = slice(v), .k = k, .stats = &stats});
        EXPECT_EQ(s.indices, t.indices) << to_string(method) << " " << step;
        EXPECT_EQ(s.threshold, t.threshold);
      }
      return s;
    });
  }
  Selector selector;
  StateDict nothing, wrong;
  EXPECT_THROW(selector.load(nothing), DataError);
  wrong.set("selector", Tensor::zeros({10}));
  EXPECT_THROW(selector.load(wrong), DataError);
}

TEST(Selector, ChoosesAlikeOnAnyNumberOfThreads) {
  const Values x = hostile(1'000'003)["clustered"];
  for (const Method method : all_methods())
    for (const std::size_t k : {1000, 200'000}) {
      std::vector<Selection> each;
      for (const int threads : {1, 2, 3}) {
        set_kernel_threads(threads);
        Selector selector({.method = method, .threshold = 20});
        SelectionInput input{.values = slice(x), .k = k};
        input.latest = slice(x);
        selector.select(input);
        each.push_back(selector.select(input));
      }
      set_kernel_threads(1);
      EXPECT_EQ(each[0].indices, each[1].indices) << to_string(method);
      EXPECT_EQ(each[0].indices, each[2].indices) << to_string(method);
      EXPECT_EQ(each[0].threshold, each[2].threshold) << to_string(method);
    }
}

TEST(Selector, ChoosesAlikeWithAndWithoutAvx512) {
  for (const std::size_t n : {100, 5000, 70'001})
    for (const auto& [name, x] : hostile(n))
      for (const Method method : {Method::exact, Method::search})
        for (const std::size_t k : counts_for(n))
          for (const Sign sign : kSigns) {
            const Selection wide = chosen(method, x, k, sign);
            cpu::allow_avx512(false);
            const Selection portable = chosen(method, x, k, sign);
            cpu::allow_avx512(true);
            ASSERT_EQ(wide.indices, portable.indices) << to_string(method) << " " << name << " " << k << " of " << n;
            ASSERT_EQ(wide.threshold, portable.threshold);
          }
}

TEST(Selector, RefusesNaNWhereverItStands) {
  for (const Method method : all_methods())
    for (const std::size_t n : {1, 100, 70'000})
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        Values x = hostile(n)["normal"];
        for (const float nan : {kNaN, -kNaN}) {
          x[at] = nan;
          SelectionInput input{.values = slice(x), .k = 1};
          input.latest = slice(x);
          EXPECT_THROW(Selector({.method = method}).select(input), DataError)
              << to_string(method) << " " << at << " of " << n;
        }
      }
}

TEST(Selector, NamesItselfAndIsFoundByName) {
  for (const Method method : all_methods()) EXPECT_EQ(method_from(to_string(method), "--method"), method);
  try {
    method_from("serch", "--method");
    ADD_FAILURE();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "unknown selector 'serch' (--method): did you mean search?");
  }
}

TEST(Selector, RefusesWhatDoesNotFit) {
  const Values x(10, 1.0f);
  EXPECT_THROW(chosen(Method::exact, x, 11), ShapeError);
  EXPECT_THROW(chosen(Method::adacomp, x, 1), ShapeError);
  EXPECT_THROW(chosen(Method::random, x, 1, Sign::positive), ShapeError);
}

TEST(FixedThreshold, TakesAllAboveIt) {
  const Values x{0.5f, -0.6f, 0.7f, 0, -0.5f};
  Selector selector({.method = Method::fixed, .threshold = 0.5f});
  EXPECT_EQ(selector.select({.values = slice(x), .k = 0}).indices, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(selector.select({.values = slice(x), .k = 0, .sign = Sign::negative}).indices,
            (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(Selector({.method = Method::fixed, .threshold = 5}).select({.values = slice(x)}).size(), 0u);
}

TEST(AdaComp, SendsWhatReachesTheLargestOfItsBinWithTheLatestTwice) {
  //            bin of 4            |                      | zeros     | the short last one
  const Values v{1, -2, 0.5f, 1.6f, 3, 2.9f, -1, 0, 0, 0, 0, 0, -1};
  const Values g{1, 0, 0.1f, 0.4f, -1, 0.2f, -2.5f, 0, 0, 0, 0, 0, 0};
  Selector selector({.method = Method::adacomp, .bin = 4});
  SelectionInput input{.values = slice(v)};
  input.latest = slice(g);
  EXPECT_EQ(selector.select(input).indices, (std::vector<std::uint32_t>{0, 1, 3, 5, 6, 12}));
}

TEST(RandomK, IsTheSameForEqualKeysAndAnotherForOthers) {
  const Values x(50'000, 1.0f);
  const auto draw = [&](std::size_t k, Key key) {
    SelectionInput input{.values = slice(x), .k = k};
    input.key = key;
    return Selector({.method = Method::random}).select(input);
  };
  for (const std::size_t k : {1, 50, 20'000, 50'000}) {
    const Selection a = draw(k, {.seed = 1, .step = 2, .operation = 3});
    EXPECT_EQ(a.size(), k);
    expect_well_formed(a, x, Sign::any);
    EXPECT_EQ(draw(k, {.seed = 1, .step = 2, .operation = 3, .hop = 4, .rank = 5}).indices, a.indices);
    if (k == 50'000) continue;
    EXPECT_NE(draw(k, {.seed = 2, .step = 2, .operation = 3}).indices, a.indices);
    EXPECT_NE(draw(k, {.seed = 1, .step = 3, .operation = 3}).indices, a.indices);
    EXPECT_NE(draw(k, {.seed = 1, .step = 2, .operation = 4}).indices, a.indices);
  }
}

TEST(RandomK, DrawsEvenly) {
  const Values x(20, 1.0f);
  for (const std::size_t k : {1, 10}) {
    std::vector<int> hits(20);
    for (std::uint64_t step = 0; step < 4000; ++step) {
      SelectionInput input{.values = slice(x), .k = k};
      input.key.step = step;
      for (const auto i : Selector({.method = Method::random}).select(input).indices) ++hits[i];
    }
    const double mean = 4000.0 * static_cast<double>(k) / 20;
    for (int h : hits) EXPECT_NEAR(h, mean, 6 * std::sqrt(mean)) << k;
  }
}

TEST(Dropping, TakesAboutKAndDgcNeverMore) {
  const std::size_t n = 1'000'000, k = 10'000;
  for (const char* name : {"normal", "clustered", "heavy tails"}) {
    const Values x = hostile(n)[name];
    const Selection dropping = chosen(Method::dropping, x, k), dgc = chosen(Method::dgc, x, k);
    EXPECT_NEAR(static_cast<double>(dropping.size()), k, 0.8 * k) << name;
    EXPECT_LE(dgc.size(), k);
    EXPECT_GE(dgc.size(), k / 5) << name;
    expect_well_formed(dropping, x, Sign::any);
    EXPECT_EQ(dgc.indices, top_k(x, dgc.size(), Sign::any)) << name;  // what there is, are the largest
  }
  EXPECT_EQ(chosen(Method::dropping, Values(1000, 0.0f), 10).size(), 0u);
  EXPECT_EQ(chosen(Method::dgc, Values(1000, 0.0f), 10).size(), 0u);
  EXPECT_EQ(chosen(Method::dgc, Values(1000, 1.0f), 10).size(), 10u);
}

using SelectorOnCuda = CudaTest;

void expect_same(const Selection& cuda, const Selection& cpu) {
  ASSERT_EQ(host_values(cuda.all_indices()), cpu.indices);
  ASSERT_EQ(host_values(cuda.all_values()), cpu.values);
  EXPECT_EQ(cuda.threshold, cpu.threshold);
}

TEST_F(SelectorOnCuda, ChoosesWhatTheCpuChooses) {
  std::size_t turn = 0;  // all signs in turns: each of everything takes long where the device is emulated
  for (const std::size_t n : {1, 100, 4097})
    for (const auto& [name, x] : hostile(n)) {
      const Placed<float> there(x, kCuda, n % 2);
      for (const std::size_t k : counts_for(n))
        for (const Method method : {Method::exact, Method::search, Method::fixed}) {
          const Sign sign = kSigns[turn++ / 3 % 3];
          if (method == Method::fixed && k > 1) continue;
          SCOPED_TRACE(testing::Message() << to_string(method) << ": " << k << " of " << n << " " << name << ", sign "
                                          << static_cast<int>(sign));
          const SelectorOptions options{.method = method, .threshold = 0.3f};
          const Selection expected = Selector(options).select({.values = slice(x), .k = k, .sign = sign});
          const Selection s = Selector(options).select({.values = there, .k = k, .sign = sign});
          ASSERT_NO_FATAL_FAILURE(expect_same(s, expected));
        }
    }
}

TEST_F(SelectorOnCuda, ChoosesAlikeByEveryMethodAndInEveryTurn) {
  const std::size_t n = 30'011;
  const Values x = hostile(n)["clustered"], latest = hostile(n)["normal"];
  const Placed<float> there(x, kCuda, 1), latest_there(latest, kCuda);
  for (const Method method : all_methods())
    for (const std::size_t k : {30, 6000}) {
      const SelectorOptions options{.method = method, .threshold = 20};
      Selector cpu(options), cuda(options);
      for (std::uint64_t turn = 0; turn < 3; ++turn) {
        SCOPED_TRACE(testing::Message() << to_string(method) << " " << k << ", turn " << turn);
        SelectionInput input{.values = slice(x), .k = k};
        input.latest = slice(latest), input.key.step = turn;
        const Selection expected = cpu.select(input);
        input.values = there, input.latest = latest_there;
        const Selection s = cuda.select(input);
        if (method == Method::trimmed_steps)
          EXPECT_EQ(host_values(s.all_indices()), expected.indices);  // its threshold is that of the exact top k
        else
          ASSERT_NO_FATAL_FAILURE(expect_same(s, expected));
      }
    }
}

// So many (over 4,194,304) that the device scans its counts in two rounds.
TEST_F(SelectorOnCuda, ChoosesWhatTheCpuChoosesOfMillions) {
  const std::size_t n = 4'300'007;
  const Values x = generated(n, 9, [](Random& random, std::size_t) { return std::floor(random.uniform() * 1000); });
  const Placed<float> there(x, kCuda);
  // All but the last of those that tie: where they end is told by counts of the second round.
  const auto k = static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [](float v) { return v >= 998; })) - 10;
  for (const Method method : {Method::exact, Method::radix}) {
    SCOPED_TRACE(to_string(method));
    const SelectorOptions options{.method = method};
    const SelectionInput input{.values = slice(x), .k = k};
    SelectionInput input_there = input;
    input_there.values = there;
    const Selection expected = Selector(options).select(input);
    EXPECT_GT(expected.indices.back(), 4'200'000u);
    ASSERT_NO_FATAL_FAILURE(expect_same(Selector(options).select(input_there), expected));
  }
}

TEST_F(SelectorOnCuda, StepAfterStepGoesByWhatTheResidualPassMet) {
  const std::size_t n = 40'003;
  for (const std::size_t k : {40, 4'000})
    for (const Sign sign : {Sign::any, Sign::negative})
      for (const Method method : {Method::exact, Method::search, Method::sampled}) {
        Selector cpu({.method = method}), cuda({.method = method});
        int without_a_pass = 0, step = 0;
        simulate(cpu, n, k, sign, 8, [&](const Values& x, const ResidualStats& stats, Candidates& candidates) {
          SCOPED_TRACE(testing::Message() << to_string(method) << " " << k << ", step " << step++);
          // V as it is, in two parts that come in another order.
          const Placed<float> values(x, kCuda);
          const Placed<float> zeros(Values(n, 0.0f), kCuda);
          Candidates there;
          cuda.prepare(there, k, sign);
          StatsSum sums;
          for (const std::size_t first : {std::size_t{30'000}, std::size_t{0}}) {
            const std::size_t count = std::min<std::size_t>(30'000, n - first);
            accumulate_residual({zeros.slice().sub(first, count),
                                 {},
                                 {},
                                 values.slice().sub(first, count),
                                 static_cast<std::uint32_t>(first)},
                                {}, 1.0f, &there, sums);
          }
          Selection expected =
              cpu.select({.values = slice(x), .k = k, .sign = sign, .stats = &stats, .candidates = &candidates});
          Selection s = cuda.select({.values = values, .k = k, .sign = sign, .sums = &sums, .candidates = &there});
          EXPECT_EQ(host_values(s.all_indices()), expected.indices);
          EXPECT_EQ(s.threshold, expected.threshold);
          without_a_pass += s.passes == 0;
          return expected;
        });
        EXPECT_GE(without_a_pass, 4) << to_string(method) << " " << k;
      }
}

TEST_F(SelectorOnCuda, RefusesNaNWhereverItStands) {
  for (const Method method : all_methods())
    for (const std::size_t n : {1, 5000})
      for (const std::size_t at : {std::size_t{0}, n - 1}) {
        Values x = hostile(n)["normal"];
        x[at] = at == 0 ? kNaN : -kNaN;
        const Placed<float> there(x, kCuda);
        SelectionInput input{.values = there, .k = 1};
        input.latest = there;
        EXPECT_THROW(Selector({.method = method}).select(input), DataError) << to_string(method) << " " << at;
      }
}

}  // namespace
}  // namespace laconic::compress
