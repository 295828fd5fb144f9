#pragma once
#include <bit>
#include <cstdint>

#include "compress/choose/selection.h"

namespace laconic::compress {

/// Magnitudes are compared as integers: a float's bits without the sign are in the order of |x|, denormals and
/// infinities included, whatever the processor does with denormals. Values of the wrong sign get keys below 0, and keys
/// above kInfinityKey are NaNs.
constexpr std::int32_t key_of(float value, Sign sign) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (sign == Sign::any) return static_cast<std::int32_t>(bits & 0x7FFFFFFFu);
  return static_cast<std::int32_t>(sign == Sign::positive ? bits : bits ^ 0x80000000u);
}
inline constexpr std::int32_t kInfinityKey = 0x7F800000;

/// The smallest key that competes: of one sign, 0 does not.
constexpr std::int32_t lowest_key(Sign sign) { return sign == Sign::any ? 0 : 1; }

/// The magnitude whose key is `key` >= 0.
constexpr float magnitude_of(std::int32_t key) { return std::bit_cast<float>(key); }

/// The smallest competing key whose magnitude is at least `floor`, or above `threshold`. Neither is NaN.
constexpr std::int32_t key_from(float floor, Sign sign) {
  const std::int32_t lowest = lowest_key(sign);
  const std::int32_t key = std::bit_cast<std::int32_t>(floor);
  return key < lowest ? lowest : key;  // a floor below 0 has a key below 0
}
constexpr std::int32_t key_above(float threshold, Sign sign) {
  const std::int32_t key = std::bit_cast<std::int32_t>(threshold);
  // -0 is no smaller than 0.
  if (key == std::bit_cast<std::int32_t>(-0.0f)) return 1;
  return key < 0 ? lowest_key(sign) : key + 1;
}

}  // namespace laconic::compress
