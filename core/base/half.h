#pragma once
#include <bit>
#include <cstdint>

namespace laconic {

/// The value of a half (IEEE binary16), exactly; NaN stays NaN.   h : its bits
constexpr float float_of(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h} << 16 & 0x80000000u, e = h >> 10 & 0x1F, m = h & 0x3FF;
  if (e == 31) return std::bit_cast<float>(sign | 0x7F800000u | m << 13 | (m ? 0x400000u : 0u));
  if (e > 0) return std::bit_cast<float>(sign | (e + 112) << 23 | m << 13);
  const float magnitude = static_cast<float>(m) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace laconic
