#pragma once
#include <cstddef>
#include <cstdint>

namespace laconic::compress::cpu {

/// first + i for each i < n with marks[i] = 1 (the others are 0), ascending.   to : room for n + 16
/// Returns how many they are. No branch depends on a mark.
std::size_t marked(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to);

}  // namespace laconic::compress::cpu
