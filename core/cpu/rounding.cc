#include "core/cpu/rounding.h"

#include <bit>

namespace laconic::cpu {

void to_bf16(BFloat16* y, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    y[i].bits = static_cast<std::uint16_t>(nan ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
}

void from_bf16(float* y, const BFloat16* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i].bits) << 16);
}

}  // namespace laconic::cpu
