#pragma once
// Numbers with fewer bits than float32, as tensor cores read them.
#include <bit>
#include <cmath>
#include <cstdint>

namespace emulated_cuda {

inline float from_bf16(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }

/// x with `bits` of its mantissa, to the nearest, ties to even.
inline float round_mantissa(float x, int bits) {
  if (!std::isfinite(x)) return x;
  const int drop = 23 - bits;
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((u + (1u << (drop - 1)) - 1 + (u >> drop & 1u)) >> drop << drop);
}
inline float to_tf32(float x) { return round_mantissa(x, 10); }
inline std::uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_mantissa(x, 7)) >> 16);
}

}  // namespace emulated_cuda
