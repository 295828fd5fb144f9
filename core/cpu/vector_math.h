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

/// e^x for any x, within 4 units in the last place: 0 and infinity where e^x is beyond all floats.
LACONIC_INLINE float full_exp(float x) {
  const bool far = x > 80.0f || x < -80.0f;
  const float e = bounded_exp(far ? 0.5f * x : x);
  return far ? e * e : e;
}

/// ln x within 2 units in the last place; of 0 minus infinity, of what is below NaN.
///   source: Cephes logf (Moshier): x = 2^n m with m from sqrt(1/2) to sqrt(2), a polynomial of degree 9 in m - 1
LACONIC_INLINE float full_log(float x) {
  const bool tiny = x < 1.17549435e-38f;  // a denormal
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(tiny ? x * 8388608.0f : x);
  float n = static_cast<float>(static_cast<std::int32_t>(bits >> 23 & 0xFFu) - 126 - (tiny ? 23 : 0));
  const float half = std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F000000u);  // 0.5 … 1
  const bool low = half < 0.707106781f;
  n = low ? n - 1.0f : n;
  const float m = low ? half + half - 1.0f : half - 1.0f, z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float y = p * m * z - 2.12194440e-4f * n - 0.5f * z, finite = m + y + 0.693359375f * n;
  const float infinity = std::bit_cast<float>(0x7F800000u), nan = std::bit_cast<float>(0x7FC00000u);
  const float positive = x < infinity ? finite : x;  // infinity and NaN are their own
  return x > 0.0f ? positive : x == 0.0f ? -infinity : x < 0.0f ? nan : x;
}

/// The error function within 2e-7, given e^(-x^2).   source: Abramowitz & Stegun 7.1.26
LACONIC_INLINE float fast_erf(float x, float e) {
  const float a = x < 0.0f ? -x : x, t = 1.0f / (1.0f + 0.3275911f * a);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float y = 1.0f - p * t * e;
  return x < 0.0f ? -y : y;
}
LACONIC_INLINE float fast_erf(float x) { return fast_erf(x, bounded_exp(-x * x)); }

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
