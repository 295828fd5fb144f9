#pragma once
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

namespace laconic {

/// Normal numbers that depend on the rank alone.
inline std::vector<float> values_of(int rank, std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(1000 + rank));
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

/// Bit for bit, not by value.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace laconic
