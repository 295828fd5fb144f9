#include "compress/cpu/half.h"

#include <cstdint>
#include <cstring>

#include "compress/cpu/isa.h"
#include "compress/half_bits.h"
#include "core/cpu/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace laconic::compress::cpu {
namespace {

#if defined(__x86_64__)
bool use_f16c() {
  static const bool has = __builtin_cpu_supports("f16c");
  return has && use_avx2();
}

#define LACONIC_F16C __attribute__((target("avx2,f16c")))
LACONIC_F16C std::size_t to_fp16_vectors(const float* x, std::size_t n, std::byte* to) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
LACONIC_F16C std::size_t from_fp16_vectors(const std::byte* from, std::size_t n, float* x) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
  return i;
}
#endif

LACONIC_MULTIVERSION void to_bf16_loop(const float* LACONIC_RESTRICT x, std::size_t n, std::byte* LACONIC_RESTRICT to) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const std::uint16_t word = bf16_of(bits);
    std::memcpy(to + 2 * i, &word, sizeof word);
  }
}
LACONIC_MULTIVERSION void from_bf16_loop(const std::byte* LACONIC_RESTRICT from, std::size_t n,
                                         float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t word;
    std::memcpy(&word, from + 2 * i, sizeof word);
    const std::uint32_t bits = std::uint32_t{word} << 16;
    std::memcpy(x + i, &bits, sizeof bits);
  }
}

}  // namespace

void to_fp16(const float* x, std::size_t n, std::byte* to) {
  std::size_t i = 0;
#if defined(__x86_64__)
  if (use_f16c()) i = to_fp16_vectors(x, n, to);
#endif
  for (; i < n; ++i) {
    const std::uint16_t h = fp16_of(x[i]);
    std::memcpy(to + 2 * i, &h, sizeof h);
  }
}

void from_fp16(const std::byte* from, std::size_t n, float* x) {
  std::size_t i = 0;
#if defined(__x86_64__)
  if (use_f16c()) i = from_fp16_vectors(from, n, x);
#endif
  for (; i < n; ++i) {
    std::uint16_t h;
    std::memcpy(&h, from + 2 * i, sizeof h);
    x[i] = float_of(h);
  }
}

void to_bf16(const float* x, std::size_t n, std::byte* to) { to_bf16_loop(x, n, to); }
void from_bf16(const std::byte* from, std::size_t n, float* x) { from_bf16_loop(from, n, x); }

}  // namespace laconic::compress::cpu
