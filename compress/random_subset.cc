#include "compress/random_subset.h"

#include <algorithm>
#include <unordered_set>

namespace laconic::compress {

void random_subset(std::size_t n, std::size_t k, Random random, std::vector<std::uint32_t>& indices) {
  indices.clear();
  if (k > n / 16) {
    for (std::size_t i = 0; i < n && indices.size() < k; ++i)
      if (random.below(static_cast<std::uint32_t>(n - i)) < k - indices.size())
        indices.push_back(static_cast<std::uint32_t>(i));
    return;
  }
  std::unordered_set<std::uint32_t> chosen;
  for (std::size_t top = n - k; top < n; ++top) {
    const std::uint32_t i = random.below(static_cast<std::uint32_t>(top + 1));
    indices.push_back(chosen.insert(i).second ? i : static_cast<std::uint32_t>(top));
    chosen.insert(indices.back());
  }
  std::sort(indices.begin(), indices.end());
}

}  // namespace laconic::compress
