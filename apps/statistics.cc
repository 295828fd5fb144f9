#include "apps/statistics.h"

#include <algorithm>
#include <cmath>

namespace laconic {

Median median(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  double below = 0;  // P(Binomial(n, 1/2) < k)
  std::size_t k = 0;
  for (double term = std::pow(0.5, static_cast<double>(n)); k < n / 2 && 2 * (below + term) <= 0.05; ++k) {
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  const std::size_t rank = k == 0 ? 0 : k - 1;
  return {n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]), v[rank], v[n - 1 - rank]};
}

}  // namespace laconic
