#include "core/stored_elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/half.h"
#include "core/tensor.h"

namespace laconic {
namespace {

template <class T>
T element_at(const std::byte* from, std::int64_t i) {
  T x;
  std::memcpy(&x, from + static_cast<std::size_t>(i) * sizeof x, sizeof x);
  return x;
}

/// 8 bits of floating point, exactly: a sign, `kExponent` bits of exponent, and the mantissa.
///   infinite   the largest exponent is that of infinity and NaN; else it is a number, and only all ones are NaN
template <int kExponent, bool infinite>
float small_float(unsigned bits) {
  constexpr int kMantissa = 7 - kExponent, kBias = (1 << (kExponent - 1)) - 1, kMost = (1 << kExponent) - 1;
  const int exponent = static_cast<int>(bits >> kMantissa) & kMost;
  const auto mantissa = static_cast<float>(bits & ((1u << kMantissa) - 1));
  const float one = static_cast<float>(1 << kMantissa);
  float magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                                  : std::ldexp(one + mantissa, exponent - kBias - kMantissa);
  const bool special = exponent == kMost && (infinite || mantissa == one - 1);
  if (special) magnitude = infinite && mantissa == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
  return bits & 0x80 ? -magnitude : magnitude;
}

/// Values of all numbers of 8 or 16 bits: looking one up is faster than computing it.
template <class Bits, class F>
std::vector<float> all_values(F value) {
  std::vector<float> all(std::size_t{std::numeric_limits<Bits>::max()} + 1);
  for (std::size_t bits = 0; bits < all.size(); ++bits) all[bits] = value(static_cast<Bits>(bits));
  return all;
}

template <class Bits, float (*value)(Bits)>
std::int64_t looked_up(const std::byte* from, std::int64_t count, std::byte* to) {
  static const std::vector<float> values = all_values<Bits>(value);
  auto* const y = reinterpret_cast<float*>(to);
  for (std::int64_t i = 0; i < count; ++i) y[i] = values[element_at<Bits>(from, i)];
  return count;
}

float half_value(std::uint16_t bits) { return float_of(bits); }
float e4m3_value(std::uint8_t bits) { return small_float<4, false>(bits); }
float e5m2_value(std::uint8_t bits) { return small_float<5, true>(bits); }

std::int64_t bfloat16_to_f32(const std::byte* from, std::int64_t count, std::byte* to) {
  auto* const y = reinterpret_cast<float*>(to);
  for (std::int64_t i = 0; i < count; ++i) y[i] = widened(BFloat16{element_at<std::uint16_t>(from, i)});
  return count;
}

std::int64_t f32_to_f32(const std::byte* from, std::int64_t count, std::byte* to) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  return count;
}

std::int64_t f64_to_f32(const std::byte* from, std::int64_t count, std::byte* to) {
  auto* const y = reinterpret_cast<float*>(to);
  std::int64_t fit = count;
  for (std::int64_t i = count - 1; i >= 0; --i) {
    const auto x = element_at<double>(from, i);
    // From halfway between the largest float32 and the next power of two on, it rounds to infinity.
    const bool too_large = std::isfinite(x) && std::abs(x) >= 0x1.ffffffp127;
    y[i] = too_large ? std::numeric_limits<float>::infinity() : static_cast<float>(x);
    if (too_large) fit = i;
  }
  return fit;
}

template <class T>
std::int64_t to_whole(const std::byte* from, std::int64_t count, std::byte* to) {
  auto* const y = reinterpret_cast<std::int64_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = element_at<T>(from, i);
    if (!std::in_range<std::int64_t>(x)) return i;
    y[i] = static_cast<std::int64_t>(x);
  }
  return count;
}

}  // namespace

const ElementType* element_type(const std::string& name) {
  static constexpr ElementType kTypes[] = {
      {"F32", 4, f32_to_f32},
      {"F16", 2, looked_up<std::uint16_t, half_value>},
      {"BF16", 2, bfloat16_to_f32},
      {"F64", 8, f64_to_f32},
      {"F8_E4M3", 1, looked_up<std::uint8_t, e4m3_value>},
      {"F8_E5M2", 1, looked_up<std::uint8_t, e5m2_value>},
      {"BOOL", 1, nullptr, to_whole<std::uint8_t>},
      {"I8", 1, nullptr, to_whole<std::int8_t>},
      {"U8", 1, nullptr, to_whole<std::uint8_t>},
      {"I16", 2, nullptr, to_whole<std::int16_t>},
      {"U16", 2, nullptr, to_whole<std::uint16_t>},
      {"I32", 4, nullptr, to_whole<std::int32_t>},
      {"U32", 4, nullptr, to_whole<std::uint32_t>},
      {"I64", 8, nullptr, to_whole<std::int64_t>},
      {"U64", 8, nullptr, to_whole<std::uint64_t>},
      {"C64", 8},
  };
  for (const ElementType& type : kTypes)
    if (name == type.name) return &type;
  return nullptr;
}

}  // namespace laconic
