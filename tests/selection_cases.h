#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "compress/select/residual.h"
#include "compress/select/selector.h"
#include "core/base/random.h"

/// What selectors are tested with: values that are hard to choose from, and steps of a training.
namespace laconic::compress::selection_cases {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kTiny = std::numeric_limits<float>::denorm_min();
inline constexpr Sign kSigns[] = {Sign::any, Sign::positive, Sign::negative};
using Values = std::vector<float>;

inline Values generated(std::size_t n, std::uint64_t seed, const std::function<float(Random&, std::size_t)>& f) {
  Random random(seed, Purpose::test);
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = f(random, i);
  return x;
}

inline std::map<std::string, Values> hostile(std::size_t n) {
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

inline std::vector<std::size_t> counts_for(std::size_t n) {
  std::vector<std::size_t> ks{0, 1, n / 1000, n / 4, n / 2, n - 1, n};
  std::sort(ks.begin(), ks.end());
  ks.erase(std::unique(ks.begin(), ks.end()), ks.end());
  while (!ks.empty() && ks.back() > n) ks.pop_back();  // n - 1 of n = 0
  return ks;
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

}  // namespace laconic::compress::selection_cases
