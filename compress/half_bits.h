#pragma once
#include <bit>
#include <cstdint>

/// The formats of compress/half.h, one value at a time, for every device.
namespace laconic::compress {

constexpr std::uint16_t fp16_of(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = bits >> 16 & 0x8000, a = bits & 0x7FFFFFFF;
  if (a > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00 | (a >> 13 & 0x3FF));
  if (a >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);  // 2^16 and above
  if (a < 0x38800000) {                                                   // below 2^-14: multiples of 2^-24
    const float rounded = std::bit_cast<float>(a) + 0.5f;                 // whose last bit is worth as much
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000));
  }
  return static_cast<std::uint16_t>(sign | (a - (112u << 23) + 0xFFF + (a >> 13 & 1)) >> 13);
}

constexpr float float_of(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h} << 16 & 0x80000000u, e = h >> 10 & 0x1F, m = h & 0x3FF;
  if (e == 31) return std::bit_cast<float>(sign | 0x7F800000u | m << 13 | (m ? 0x400000u : 0u));
  if (e > 0) return std::bit_cast<float>(sign | (e + 112) << 23 | m << 13);
  const float magnitude = static_cast<float>(m) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

constexpr std::uint16_t bf16_of(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000u ? nan : rounded);
}

}  // namespace laconic::compress
