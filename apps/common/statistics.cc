#include "apps/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace laconic {

Median median(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  double below = 0;                                               // P(Binomial(n, 1/2) < k)
  double log_term = -static_cast<double>(n) * std::numbers::ln2;  // of k alone: 2^-n is 0 from 1,075 values on
  std::size_t k = 0;
  for (; k < n / 2 && 2 * (below + std::exp(log_term)) <= 0.05; ++k) {
    below += std::exp(log_term);
    log_term += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
  }
  const std::size_t rank = k == 0 ? 0 : k - 1;
  return {n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]), v[rank], v[n - 1 - rank], n};
}

void mean_and_deviation(const std::vector<double>& values, std::optional<double>& mean,
                        std::optional<double>& deviation) {
  if (values.empty()) return;
  const auto n = static_cast<double>(values.size());
  double centre = 0, squares = 0;
  for (double v : values) centre += v / n;
  for (double v : values) squares += (v - centre) * (v - centre);
  mean = centre;
  if (values.size() > 1) deviation = std::sqrt(squares / (n - 1));
}

}  // namespace laconic
