#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/half.h"
#include "core/base/random.h"

/// The formats of codecs, one value at a time, for every device.
namespace laconic::compress {

/// v, and one NaN for all: a GPU's arithmetic makes another than the CPU's, which keeps an operand's. For what
/// goes into payloads or comes out of them, where it was computed.
constexpr float one_nan(float v) { return v == v ? v : std::bit_cast<float>(0x7FC00000u); }

constexpr std::uint16_t fp16_of(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = bits >> 16 & 0x8000, a = bits & 0x7FFFFFFF;
  if (a > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00 | (a >> 13 & 0x3FF));
  if (a >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);  // 2^16 and above
  if (a < 0x38800000) {                                                   // below 2^-14: multiples of 2^-24
    const float rounded = std::bit_cast<float>(a) + 0.5f;                 // the sum's last bit is worth 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000));
  }
  return static_cast<std::uint16_t>(sign | (a - (112u << 23) + 0xFFF + (a >> 13 & 1)) >> 13);
}

/// Values that are divided by one power of two before they become halves (compress/codecs/short_floats.cc).
inline constexpr std::size_t kHalvesOfAnExponent = 4096;

/// Returns the s with which magnitude / 2^s, rounded to a half, is at least 2^15 and finite, from -100 to 113. Returns
/// 0 of 0, infinity and NaN.
///   magnitude : the bits of a float that is not below 0
constexpr int half_exponent(std::uint32_t magnitude) {
  if (magnitude == 0 || magnitude >= 0x7F800000u) return 0;
  const int exponent = static_cast<int>((magnitude + 0x1000) >> 23) - 127 - 15;
  return exponent < -100 ? -100 : exponent;
}

constexpr std::uint16_t bf16_of(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000u ? nan : rounded);
}

/// Sign and exponent, 9 bits, of a float (as its bits) that `random` rounds to one of the powers of two beside it: the
/// mantissa is the probability that the exponent grows. NaN becomes infinity.
///   random : uniform over 32 bits
constexpr std::uint32_t natural_of(std::uint32_t bits, std::uint32_t random) {
  constexpr std::uint32_t kInfinity = 0x7F800000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF, rounded = magnitude + (random >> 9);
  return (magnitude >= kInfinity ? kInfinity : rounded) >> 23 | bits >> 31 << 8;
}

/// Sign and level, of `bits` bits together, of a value that `random` rounds to one of the two levels beside it.
///   per_one : levels of a magnitude of 1.   levels : the largest.   random : uniform over 32 bits
constexpr std::uint32_t level_of(float v, float per_one, std::int32_t levels, unsigned bits, std::uint32_t random) {
  const auto word = std::bit_cast<std::uint32_t>(v);
  const float scaled = std::bit_cast<float>(word & 0x7FFFFFFF) * per_one, limit = static_cast<float>(levels);
  const auto level = static_cast<std::int32_t>((limit < scaled ? limit : scaled) + to_unit_float(random));
  return static_cast<std::uint32_t>(level < levels ? level : levels) | word >> 31 << (bits - 1);
}

/// What sign and level stand for. step : of a level
constexpr float value_of_level(std::uint32_t number, float step, unsigned bits) {
  const std::uint32_t level = number & ((1u << (bits - 1)) - 1);
  const float magnitude = static_cast<float>(static_cast<std::int32_t>(level)) * step;
  return one_nan(number >> (bits - 1) ? -magnitude : magnitude);
}

/// Returns the s with 2^-8 <= mean / 2^s < 2^-7, so that what is below 128 means ends below 1. s is from -92 to 108.
/// It is 0 if the sum is 0 or not finite.
///   sum : of n magnitudes
constexpr int exponent_for_mean(double sum, std::size_t n) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(sum / static_cast<double>(n));
  const int biased = static_cast<int>(bits >> 52 & 0x7FF), exponent = biased - 1023;
  if (biased == 0 || biased == 0x7FF) return 0;
  return 8 + (exponent < -100 ? -100 : exponent > 100 ? 100 : exponent);
}

/// 2^exponent for -126 <= exponent <= 127; what lies outside is taken as the nearer end.
constexpr float power_of_two(int exponent) {
  const int inside = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
  return std::bit_cast<float>(static_cast<std::uint32_t>(inside + 127) << 23);
}

}  // namespace laconic::compress
