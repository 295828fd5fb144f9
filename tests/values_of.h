#pragma once
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <vector>

namespace laconic {

/// Normal numbers that depend on the rank alone: the first n of an endless row, drawn once.
inline std::vector<float> values_of(int rank, std::size_t n) {
  struct Row {
    std::mt19937 random;
    std::normal_distribution<float> normal{};
    std::vector<float> drawn{};
  };
  static std::mutex mutex;
  static std::map<int, Row> rows;
  const std::lock_guard lock(mutex);
  Row& row = rows.try_emplace(rank, std::mt19937(static_cast<unsigned>(1000 + rank))).first->second;
  while (row.drawn.size() < n) row.drawn.push_back(row.normal(row.random));
  return {row.drawn.begin(), row.drawn.begin() + static_cast<std::ptrdiff_t>(n)};
}

/// Bit for bit, not by value.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace laconic
