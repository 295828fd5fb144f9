#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace laconic {

/// A median with its 95 % confidence interval from order statistics: no assumption about the distribution.
/// With n values the interval goes from the k-th smallest to the k-th largest, k the largest number for which
/// 2 P(Binomial(n, 1/2) < k) <= 5 %; below 6 values it is the whole range.
struct Median {
  double value = 0, low = 0, high = 0;
  std::size_t count = 0;  ///< n; 0 where it is not told
};
Median median(std::vector<double> values);

/// Calls f(begin, count) for each round of `every` steps in a row: from exchange to exchange, since steps with an
/// exchange and steps without do not compare. What is left over at the end does not count. Fewer steps than that are
/// one round.
template <class F>
void each_round(std::size_t steps, std::size_t every, F f) {
  const std::size_t count = every < steps ? every : steps;
  for (std::size_t begin = 0; count > 0 && begin + count <= steps; begin += count) f(begin, count);
}

/// Sets the mean of values, if there are any, and their standard deviation, if there are two.
void mean_and_deviation(const std::vector<double>& values, std::optional<double>& mean,
                        std::optional<double>& deviation);

}  // namespace laconic
