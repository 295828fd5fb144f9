#include "compress/select/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "apps/bench/published_selectors.h"
#include "compress/conformance.h"
#include "compress/cpu/isa.h"
#include "core/base/parallel.h"
#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/selection_cases.h"

namespace laconic::compress {
namespace {

using namespace selection_cases;

/// Every kind, those of the literature too.
std::vector<SelectorKind> all_kinds() {
  std::vector<SelectorKind> all = selectors();
  all.insert(all.end(), published_selectors().begin(), published_selectors().end());
  return all;
}

const SelectorKind& kind_of(const std::string& name) {
  for (const SelectorKind& kind : published_selectors())
    if (kind.name == name) return kind;
  return selector_kind(name);
}

constexpr const char *kAlgorithm2 = "trimmed-steps", *kAlgorithm3 = "search-steps";
constexpr const char* kTopK[] = {"exact", "trimmed", "radix", "radix-histogram", "nth-element", kAlgorithm2};

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

Selection chosen(const std::string& name, const Values& x, std::size_t k, Sign sign = Sign::any) {
  return kind_of(name).make()->select({.values = slice(x), .k = k, .sign = sign});
}

Selection by_steps(const Values& x, std::size_t k, Sign sign, const ResidualStats& stats) {
  return kind_of(kAlgorithm3).make()->select({.values = slice(x), .k = k, .sign = sign, .stats = &stats});
}

void expect_top_k(const std::string& selector, const std::string& name, const Values& x, std::size_t k, Sign sign) {
  SCOPED_TRACE(testing::Message() << selector << ": " << k << " of " << x.size() << " " << name << ", sign "
                                  << static_cast<int>(sign));
  const Selection s = chosen(selector, x, k, sign);
  expect_well_formed(s, x, sign);
  ASSERT_EQ(s.indices, top_k(x, k, sign));
  if (selector == kAlgorithm2 || s.indices.empty()) return;
  float smallest = kInf;
  for (float v : s.values) smallest = std::min(smallest, magnitude(v, sign));
  EXPECT_EQ(s.threshold, smallest);
}

TEST(Selector, TopKIsTheTopKOnHostileInput) {
  for (const std::size_t n : {0, 1, 2, 100, 4097})
    for (const auto& [name, x] : hostile(n))
      for (const std::size_t k : counts_for(n))
        for (const Sign sign : kSigns)
          for (const char* selector : kTopK) expect_top_k(selector, name, x, k, sign);
}

TEST(Selector, TopKIsTheTopKOfManyInPairs) {
  const auto all = hostile(70'000);
  const auto counts = counts_for(70'000);
  for (const auto& row : combinations({all.size(), counts.size(), std::size(kSigns), std::size(kTopK)})) {
    const auto& [name, x] = *std::next(all.begin(), static_cast<std::ptrdiff_t>(row[0]));
    expect_top_k(kTopK[row[3]], name, x, counts[row[1]], kSigns[row[2]]);
  }
}

TEST(Selector, SearchIsTheSearchStepByStepAndNeverMoreThanTwiceK) {
  for (const std::size_t n : {1, 2, 100, 4097, 70'000})
    for (const auto& [name, x] : hostile(n))
      for (const std::size_t k : counts_for(n))
        for (const Sign sign : kSigns) {
          SCOPED_TRACE(testing::Message() << k << " of " << n << " " << name << ", sign " << static_cast<int>(sign));
          const Selection fast = chosen("search", x, k, sign), steps = chosen(kAlgorithm3, x, k, sign);
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
    const Selection s = chosen("search", x, 70);
    EXPECT_GE(s.size(), 70u) << name;
    EXPECT_LE(s.size(), 140u) << name;
    EXPECT_EQ(
        static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [&](float v) { return std::abs(v) > s.threshold; })),
        s.size())
        << name;
  }
}

TEST(Selector, StepAfterStepTheSetsStayExactWithCandidatesOfTheResidualPass) {
  const std::size_t n = 100'000;
  for (const std::size_t k : {100, 10'000})
    for (const Sign sign : kSigns)
      for (const std::string name : {"exact", "trimmed", "search"}) {
        const auto made = make_selector(name);
        Selector& selector = *made;
        int without_a_pass = 0;
        simulate(selector, n, k, sign, 12, [&](const Values& v, const ResidualStats& stats, Candidates& candidates) {
          Selection s =
              selector.select({.values = slice(v), .k = k, .sign = sign, .stats = &stats, .candidates = &candidates});
          if (name == "search") {
            EXPECT_EQ(s.indices, by_steps(v, k, sign, stats).indices);
          } else {
            EXPECT_EQ(s.indices, top_k(v, k, sign));
          }
          expect_well_formed(s, v, sign);
          without_a_pass += s.passes == 0;
          return s;
        });
        EXPECT_GE(without_a_pass, 5) << name << " " << k;
      }
}

TEST(Selector, SampledSearchesEveryFifthTimeAndReusesTheThreshold) {
  const std::size_t n = 100'000, k = 100;
  const auto made = make_selector("sampled");
  Selector& selector = *made;
  int step = 0;
  float threshold = 0;
  simulate(selector, n, k, Sign::any, 11, [&](const Values& v, const ResidualStats& stats, Candidates& candidates) {
    Selection s = selector.select({.values = slice(v), .k = k, .stats = &stats, .candidates = &candidates});
    Selection expected;
    if (step % 5 == 0) {
      expected = by_steps(v, k, Sign::any, stats);
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
  const auto made = make_selector("sampled");
  Selector& selector = *made;
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
  for (const char* name : {"exact", "search", "sampled", "dgc"}) {
    const auto first = make_selector(name), second = make_selector(name);
    Selector &one = *first, &other = *second;
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
        EXPECT_EQ(s.indices, t.indices) << name << " " << step;
        EXPECT_EQ(s.threshold, t.threshold);
      }
      return s;
    });
  }
  const auto made = make_selector("exact");
  Selector& selector = *made;
  StateDict nothing, wrong;
  EXPECT_THROW(selector.load(nothing), DataError);
  wrong.set("selector", Tensor::zeros({10}));
  EXPECT_THROW(selector.load(wrong), DataError);
}

TEST(Selector, ChoosesAlikeOnAnyNumberOfThreads) {
  const Values x = hostile(1'000'003)["clustered"];
  for (const SelectorKind& kind : all_kinds())
    for (const std::size_t k : {1000, 200'000}) {
      std::vector<Selection> each;
      for (const int threads : {1, 2, 3}) {
        set_kernel_threads(threads);
        const auto selector = kind.make({.threshold = 20});
        SelectionInput input{.values = slice(x), .k = k};
        input.latest = slice(x);
        selector->select(input);
        each.push_back(selector->select(input));
      }
      set_kernel_threads(1);
      EXPECT_EQ(each[0].indices, each[1].indices) << kind.name;
      EXPECT_EQ(each[0].indices, each[2].indices) << kind.name;
      EXPECT_EQ(each[0].threshold, each[2].threshold) << kind.name;
    }
}

TEST(Selector, ChoosesAlikeWithAndWithoutAvx512) {
  if (!cpu::use_avx512()) GTEST_SKIP() << "this processor has no AVX-512, so both ways are one";
  for (const std::size_t n : {100, 5000, 70'001})
    for (const auto& [name, x] : hostile(n))
      for (const char* method : {"exact", "search"})
        for (const std::size_t k : counts_for(n))
          for (const Sign sign : kSigns) {
            const Selection wide = chosen(method, x, k, sign);
            cpu::avx512_allowed = false;
            const Selection portable = chosen(method, x, k, sign);
            cpu::avx512_allowed = true;
            ASSERT_EQ(wide.indices, portable.indices) << method << " " << name << " " << k << " of " << n;
            ASSERT_EQ(wide.threshold, portable.threshold);
          }
}

TEST(Selector, RefusesNaNWhereverItStands) {
  for (const SelectorKind& kind : all_kinds())
    for (const std::size_t n : {1, 100, 70'000})
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        Values x = hostile(n)["normal"];
        for (const float nan : {kNaN, -kNaN}) {
          x[at] = nan;
          SelectionInput input{.values = slice(x), .k = 1};
          input.latest = slice(x);
          EXPECT_THROW(kind.make()->select(input), DataError) << kind.name << " " << at << " of " << n;
        }
      }
}

TEST(Selector, NamesItselfAndIsFoundByName) {
  for (const SelectorKind& kind : selectors()) EXPECT_EQ(make_selector(kind.name)->name(), kind.name);
  try {
    selector_kind("serch", "--method");
    ADD_FAILURE();
  } catch (const UsageError& e) {
    EXPECT_EQ(std::string(e.what()).find("unknown selector 'serch' (--method): did you mean search? There are radix, "),
              0u);
  }
}

TEST(Selectors, KeepTheirPromises) {
  for (const SelectorKind& kind : selectors()) EXPECT_NO_THROW(check_selector(kind.name));
}

/// Breaks one promise.
class BrokenSelector final : public Selector {
 public:
  explicit BrokenSelector(const std::string& how) : how_(how) {}
  std::size_t most(std::size_t k, std::size_t n) const override {
    return how_ == "takes more" ? k / 2 : std::min(k, n);
  }

 private:
  void choose(const Offer& o, Selection& out) override {
    const auto turn = how_ == "forgets" ? calls_++ : o.turn;
    for (std::size_t j = 0; j < o.in.k; ++j) {
      const std::size_t i = how_ == "descends" ? o.in.k - 1 - j : (j + turn) % o.in.values.size();
      if (o.in.sign != Sign::any && how_ != "takes both" && magnitude(o.in.values[i], o.in.sign) < 0) continue;
      out.indices.push_back(static_cast<std::uint32_t>(i));
      out.values.push_back(how_ == "makes up" ? 1 : o.in.values[i]);
    }
    if (how_ != "descends") {
      Selection sorted;
      std::vector<std::size_t> order(out.indices.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](auto a, auto b) { return out.indices[a] < out.indices[b]; });
      for (const std::size_t j : order)
        sorted.indices.push_back(out.indices[j]), sorted.values.push_back(out.values[j]);
      out.indices = sorted.indices, out.values = sorted.values;
    }
  }
  bool meets_nan(Sign) const override { return how_ == "takes NaN"; }

  std::string how_;
  std::uint64_t calls_ = 0;
};

TEST(CheckSelector, FindsAPromiseThatIsBroken) {
  for (const auto& [how, sentence] : {std::pair{"takes more", "more is chosen than most() says"},
                                      {"descends", "indices do not ascend"},
                                      {"makes up", "not the one at its index"},
                                      {"takes both", "has the other sign"},
                                      {"takes NaN", "no number is taken"},
                                      {"forgets", "saved and loaded"}}) {
    selectors().push_back({how, {}, [name = std::string(how)](const SelectorOptions&) {
                             return std::make_unique<BrokenSelector>(name);
                           }});
    expect_error<Error>([&, name = std::string(how)] { check_selector(name); }, {sentence});
    selectors().pop_back();
  }
}

TEST(Selector, RefusesWhatDoesNotFit) {
  const Values x(10, 1.0f);
  EXPECT_THROW(chosen("exact", x, 11), ShapeError);
  EXPECT_THROW(chosen("adacomp", x, 1), ShapeError);
  EXPECT_THROW(chosen("random", x, 1, Sign::positive), ShapeError);
}

TEST(FixedThreshold, TakesAllAboveIt) {
  const Values x{0.5f, -0.6f, 0.7f, 0, -0.5f};
  const auto made = make_selector("fixed", {.threshold = 0.5f});
  Selector& selector = *made;
  EXPECT_EQ(selector.select({.values = slice(x), .k = 0}).indices, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(selector.select({.values = slice(x), .k = 0, .sign = Sign::negative}).indices,
            (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(make_selector("fixed", {.threshold = 5})->select({.values = slice(x)}).size(), 0u);
}

TEST(AdaComp, SendsWhatReachesTheLargestOfItsBinWithTheLatestTwice) {
  //            bin of 4            |                      | zeros     | the short last one
  const Values v{1, -2, 0.5f, 1.6f, 3, 2.9f, -1, 0, 0, 0, 0, 0, -1};
  const Values g{1, 0, 0.1f, 0.4f, -1, 0.2f, -2.5f, 0, 0, 0, 0, 0, 0};
  const auto made = make_selector("adacomp", {.bin = 4});
  Selector& selector = *made;
  SelectionInput input{.values = slice(v)};
  input.latest = slice(g);
  EXPECT_EQ(selector.select(input).indices, (std::vector<std::uint32_t>{0, 1, 3, 5, 6, 12}));
}

TEST(RandomK, IsTheSameForEqualKeysAndAnotherForOthers) {
  const Values x(50'000, 1.0f);
  const auto draw = [&](std::size_t k, Key key) {
    SelectionInput input{.values = slice(x), .k = k};
    input.key = key;
    return make_selector("random")->select(input);
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
      for (const auto i : make_selector("random")->select(input).indices) ++hits[i];
    }
    const double mean = 4000.0 * static_cast<double>(k) / 20;
    for (int h : hits) EXPECT_NEAR(h, mean, 6 * std::sqrt(mean)) << k;
  }
}

TEST(Dropping, TakesAboutKAndDgcNeverMore) {
  const std::size_t n = 1'000'000, k = 10'000;
  for (const char* name : {"normal", "clustered", "heavy tails"}) {
    const Values x = hostile(n)[name];
    const Selection dropping = chosen("dropping", x, k), dgc = chosen("dgc", x, k);
    EXPECT_NEAR(static_cast<double>(dropping.size()), k, 0.8 * k) << name;
    EXPECT_LE(dgc.size(), k);
    EXPECT_GE(dgc.size(), k / 5) << name;
    expect_well_formed(dropping, x, Sign::any);
    EXPECT_EQ(dgc.indices, top_k(x, dgc.size(), Sign::any)) << name;  // what there is, are the largest
  }
  EXPECT_EQ(chosen("dropping", Values(1000, 0.0f), 10).size(), 0u);
  EXPECT_EQ(chosen("dgc", Values(1000, 0.0f), 10).size(), 0u);
  EXPECT_EQ(chosen("dgc", Values(1000, 1.0f), 10).size(), 10u);
}

}  // namespace
}  // namespace laconic::compress
