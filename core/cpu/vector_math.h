#pragma once
#include <bit>
#include <cstdint>

#include "core/cpu/simd.h"

/// Exponentials without branches or calls: a LACONIC_MULTIVERSION loop over them becomes vector code for its
/// instruction set. A NaN whose low nine bits are 0 stays NaN, and so does every one that arithmetic has made; others,
/// which only foreign bits can be, may become anything: those bits end up in the exponent.
namespace laconic::cpu {

/// e^x within 2 units in the last place for x in [-86, 88]; x beyond is taken as the bound.
///   source: Cephes expf (Moshier): x = n ln 2 + r, a polynomial of degree 7 in r, times 2^n
LACONIC_INLINE float bounded_exp(float x) {
  x = x < -86.0f ? -86.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: added, it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * (r * r) + r + 1.0f;
  const std::uint32_t power = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + (power << 23));
}

/// 1 / (1 + e^-x), off by less than 4e-7 of itself for x >= -86; below -88 it stays at e^-88.
LACONIC_INLINE float fast_sigmoid(float x) { return 1.0f / (1.0f + bounded_exp(-x)); }

/// tanh(x), off by less than 4e-7 of itself; near 0 by a polynomial so that small values keep their digits.
///   source: Cephes tanhf (Moshier)
LACONIC_INLINE float fast_tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x, large = 1.0f - 2.0f / (1.0f + bounded_exp(2.0f * x));
  return z < 0.390625f ? small : large;
}

}  // namespace laconic::cpu
