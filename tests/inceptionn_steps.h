#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "compress/inceptionn/inceptionn.h"

namespace laconic::compress {

/// INCEPTIONN's compression one value at a time, as it is printed: what the kernels and the model of its network card
/// are tested against.
struct CodedValue {
  unsigned tag;  ///< 0, 1, 2, 3: a payload of 0, 8, 16, 32 bits
  std::uint32_t payload;
  bool operator==(const CodedValue&) const = default;
};

/// Bytes of a payload, by its tag.
inline constexpr unsigned kPayloadBytes[4] = {0, 1, 2, 4};

namespace steps {

inline constexpr int kExponentBias = 127;  // of a float's exponent: e = 127 is a magnitude from 1 to 2

/// Algorithm 2.
inline CodedValue compress_published(int exponent, std::uint32_t f) {
  const std::uint32_t s = f >> 31, m = f & 0x7FFFFF;
  const int e = static_cast<int>(f >> 23 & 0xFF), error_bound = exponent + kExponentBias;
  if (e >= 127) return {3, f};
  if (e < error_bound) return {0, 0};
  const int n_shift = 127 - e;
  const std::uint32_t one = 1u << 23 | m;  // 1.m, its leading one moves right by the distance to 2^0
  const std::uint32_t shifted = n_shift < 24 ? one >> n_shift : 0;
  if (e >= error_bound + (127 - error_bound + 1) / 2) return {2, s << 15 | shifted >> 8};
  return {1, s << 7 | shifted >> 16};
}

/// Algorithm 3.
inline float decompress_published(CodedValue v) {
  if (v.tag == 3) return std::bit_cast<float>(v.payload);
  if (v.tag == 0) return 0.0f;
  const int width = v.tag == 1 ? 7 : 15;
  const std::uint32_t s = v.payload >> width & 1, bits = v.payload & ((1u << width) - 1);
  if (bits == 0) return s ? -0.0f : 0.0f;
  int first_one = 1;  // counted from the most significant bit
  while (!(bits >> (width - first_one) & 1)) ++first_one;
  const auto e = static_cast<std::uint32_t>(127 - first_one);
  const std::uint32_t rest = bits & ((1u << (width - first_one)) - 1);  // without the leading one
  return std::bit_cast<float>(s << 31 | e << 23 | rest << (23 - (width - first_one)));
}

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
  return mode == InceptionnMode::published ? steps::compress_published(exponent, std::bit_cast<std::uint32_t>(value))
                                           : steps::compress_bounded(exponent, value);
}

/// Algorithm 3, and its counterpart.
inline float decompress_value(InceptionnMode mode, int exponent, CodedValue coded) {
  return mode == InceptionnMode::published ? steps::decompress_published(coded)
                                           : steps::decompress_bounded(exponent, coded);
}

}  // namespace laconic::compress
