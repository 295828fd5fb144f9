#pragma once

#if defined(__x86_64__)
// g++ 12 takes the undefined vectors inside its own intrinsics for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compress/select/selection.h"

// Only to be called where cpu::use_avx512().
#define LACONIC_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))
#define LACONIC_AVX512_INLINE LACONIC_AVX512 inline __attribute__((always_inline))

namespace laconic::compress::cpu {

LACONIC_AVX512_INLINE __mmask16 first_lanes(std::size_t n) {
  return n >= 16 ? __mmask16(0xFFFF) : static_cast<__mmask16>((1u << n) - 1);
}

/// key_of of compress/select/selection.h: (bits & mask) ^ flip.
struct KeyRule {
  __m512i mask, flip;
  LACONIC_AVX512_INLINE explicit KeyRule(Sign sign)
      : mask(_mm512_set1_epi32(sign == Sign::any ? 0x7FFFFFFF : -1)),
        flip(_mm512_set1_epi32(sign == Sign::negative ? INT32_MIN : 0)) {}
  LACONIC_AVX512_INLINE __m512i operator()(__m512 v) const {
    return _mm512_ternarylogic_epi32(_mm512_castps_si512(v), mask, flip, 0x6A);  // imm: (A & B) ^ C
  }
};

}  // namespace laconic::compress::cpu
#endif
