#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/random.h"

namespace laconic::compress {

/// k of 0 .. n-1 without repetition, every set as likely as any other, ascending. 0 <= k <= n < 2^32
/// source: Vitter 1984 (method A) for many; Floyd (Bentley 1987) for few. Cost: O(n), or O(k log k)
void random_subset(std::size_t n, std::size_t k, Random random, std::vector<std::uint32_t>& indices);

}  // namespace laconic::compress
