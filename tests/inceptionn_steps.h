#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "compress/inceptionn/inceptionn.h"
#include "tests/reference/inceptionn.h"

namespace laconic::compress {

/// INCEPTIONN's compression one value at a time: as it is printed (tests/reference/inceptionn.h), and with its bound
/// kept. What the kernels and the model of its network card are tested against.
using CodedValue = reference::CodedValue;

/// Bytes of a payload, by its tag.
inline constexpr unsigned kPayloadBytes[4] = {0, 1, 2, 4};

namespace steps {

inline constexpr int kExponentBias = 127;  // of a float's exponent: e = 127 is a magnitude from 1 to 2

inline double two_to_the(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

inline double step_of(unsigned tag, int exponent) {
  const double step = two_to_the(exponent + 1);
  return tag == 1 ? step : std::min(step, 0x1p-15);
}

inline CodedValue compress_bounded(int exponent, float value) {
  const std::uint32_t f = std::bit_cast<std::uint32_t>(value), s = f >> 31;
  const double magnitude = std::abs(static_cast<double>(value));
  if (!std::isfinite(value)) return {3, f};
  if (magnitude < two_to_the(exponent)) return {0, 0};
  const double q7 = std::nearbyint(magnitude / step_of(1, exponent));
  if (q7 <= 127) return {1, s << 7 | static_cast<std::uint32_t>(q7)};
  const double q15 = std::nearbyint(magnitude / step_of(2, exponent));
  if (magnitude < 1 && q15 <= 32767) return {2, s << 15 | static_cast<std::uint32_t>(q15)};
  return {3, f};
}

inline float decompress_bounded(int exponent, CodedValue v) {
  if (v.tag == 3) return std::bit_cast<float>(v.payload);
  if (v.tag == 0) return 0.0f;
  const int width = v.tag == 1 ? 7 : 15;
  const auto magnitude = static_cast<float>((v.payload & ((1u << width) - 1)) * step_of(v.tag, exponent));
  return v.payload >> width & 1 ? -magnitude : magnitude;
}

}  // namespace steps

/// Algorithm 2 in mode published; in bounded its classes with rounding by the bound (compress/inceptionn/inceptionn.h).
inline CodedValue compress_value(InceptionnMode mode, int exponent, float value) {
  return mode == InceptionnMode::published
             ? reference::compress(exponent + steps::kExponentBias, std::bit_cast<std::uint32_t>(value))
             : steps::compress_bounded(exponent, value);
}

/// Algorithm 3, and its counterpart.
inline float decompress_value(InceptionnMode mode, int exponent, CodedValue coded) {
  return mode == InceptionnMode::published ? reference::decompress(coded) : steps::decompress_bounded(exponent, coded);
}

}  // namespace laconic::compress
