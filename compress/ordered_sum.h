#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

namespace laconic::compress {

/// Sums in double whose bits are the same on every device and number of threads: value i of a chunk goes to lane i
/// modulo kSumLanes, a chunk's lanes are added up in their order, and chunks in theirs.
inline constexpr std::size_t kSumChunk = 4096, kSumLanes = 16;

/// The sums of the terms of 0 … n - 1, in an order that depends on n alone.
/// add(i, l, sums): sums[s][l] += term s of i
template <std::size_t kSums, class Add>
std::array<double, kSums> ordered_sums(std::size_t n, Add&& add) {
  std::array<double, kSums> all{};
  for (std::size_t first = 0; first < n; first += kSumChunk) {
    const std::size_t end = std::min(n, first + kSumChunk);
    double lanes[kSums][kSumLanes] = {};
    std::size_t i = first;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (std::size_t l = 0; l < kSumLanes; ++l) add(i + l, l, lanes);
    for (std::size_t l = 0; i < end; ++i, ++l) add(i, l, lanes);
    for (std::size_t s = 0; s < kSums; ++s) {
      double chunk = 0;
      for (const double lane : lanes[s]) chunk += lane;
      all[s] += chunk;
    }
  }
  return all;
}

}  // namespace laconic::compress
