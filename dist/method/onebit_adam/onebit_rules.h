#pragma once
#include <algorithm>
#include <cstdint>

namespace laconic::dist {

/// When gradients travel densely and change v: for `warmup` steps, at least 1; and then, if refresh > 0, `refresh`
/// times after 1 step each, as many times after 2, after 4, ...
///   source   0/1 Adam (Lu et al. 2022): its steps T_v, refresh for kappa; settled: they begin after the warm-up
struct OnebitRules {
  std::int64_t warmup = 100, refresh = 0;

  /// step : first 1
  bool dense(std::int64_t step) const { return seen(step) > seen(step - 1); }
  /// Dense steps until this one, which counts.
  std::int64_t seen(std::int64_t step) const {
    if (step <= warmup || refresh == 0) return std::min(step, warmup);
    std::int64_t count = warmup, left = step - warmup, interval = 1;
    for (; left > refresh * interval; interval *= 2) left -= refresh * interval, count += refresh;
    return count + left / interval;
  }
};

}  // namespace laconic::dist
