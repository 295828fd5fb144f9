#include "compress/inceptionn/kernels.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstring>

#include "compress/cpu/avx512.h"

namespace laconic::compress::cpu {
namespace {

constexpr std::size_t kStep = 16;           // values: two groups
constexpr std::size_t kReach = 2 + 2 * 33;  // bytes that a step of the decoder may read

// Two groups in a row, without values that travel whole: 2 bytes of tags, 8 words of up to 2 bytes, the same again.
// In a word permutation's result these are 18 words; a keep-mask of 2 bits a word then drops what is not sent.
constexpr std::uint64_t kLowBytes = 0x555515554;  // low bytes of the value words, spread by pdep
constexpr std::uint64_t kTagBytes = 0x3 | std::uint64_t{0x3} << 18;

struct Limits {
  __m512i skip, eight, sixteen;
  __m512 scale8, scale16;
  LACONIC_AVX512_INLINE explicit Limits(const InceptionnRule& r)
      : skip(_mm512_set1_epi32(static_cast<int>(r.skip))),
        eight(_mm512_set1_epi32(static_cast<int>(r.eight))),
        sixteen(_mm512_set1_epi32(static_cast<int>(r.sixteen))),
        scale8(_mm512_set1_ps(r.scale8)),
        scale16(_mm512_set1_ps(r.scale16)) {}
};

LACONIC_AVX512_INLINE void store16(std::byte* to, std::uint32_t v) {
  const auto low = static_cast<std::uint16_t>(v);
  std::memcpy(to, &low, sizeof low);
}
LACONIC_AVX512_INLINE std::uint32_t load16(const std::byte* from) {
  std::uint16_t v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <bool kTruncate, bool kKeep, bool kScale = false>
LACONIC_AVX512 std::byte* encode(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to, float* kept,
                                 float scale) {
  const __m512 by = _mm512_set1_ps(scale), back = _mm512_set1_ps(1 / scale);
  const Limits limits(rule);
  const __m512 step8 = _mm512_set1_ps(1 / rule.scale8), step16 = _mm512_set1_ps(1 / rule.scale16);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), sign = _mm512_set1_epi32(INT32_MIN);
  const __m512i by24 = _mm512_set1_epi32(24), by16 = _mm512_set1_epi32(16);
  // Word 0 and 9: the tags, from the second source; the others: the low words of the lanes.
  const __m512i places = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30, 28, 26, 24, 22, 20, 18, 16, 33,
                                          14, 12, 10, 8, 6, 4, 2, 0, 32);
  for (std::size_t i = 0; i < n; i += kStep) {
    __m512i bits = _mm512_loadu_si512(x + i);
    if constexpr (kScale) bits = _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(bits), by));
    const __m512i a = _mm512_and_si512(bits, magnitude);
    const std::uint32_t there = _mm512_cmpge_epi32_mask(a, limits.skip), two = _mm512_cmpge_epi32_mask(a, limits.eight),
                        whole = _mm512_cmpge_epi32_mask(a, limits.sixteen);
    const auto mask2 = static_cast<__mmask16>(two);
    const __m512 scaled =
        _mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_mask_blend_ps(mask2, limits.scale8, limits.scale16));
    const __m512i q = kTruncate ? _mm512_cvttps_epi32(scaled) : _mm512_cvtps_epi32(scaled);
    const __m512i signs = _mm512_srlv_epi32(_mm512_and_si512(bits, sign), _mm512_mask_blend_epi32(mask2, by24, by16));
    const __m512i words = _mm512_or_si512(q, signs);
    if constexpr (kKeep) {
      const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_mask_blend_ps(mask2, step8, step16));
      const __m512i coded = _mm512_or_si512(_mm512_castps_si512(value), _mm512_and_si512(bits, sign));
      const __m512i read = _mm512_maskz_mov_epi32(static_cast<__mmask16>(there), coded);
      __m512 all = _mm512_castsi512_ps(_mm512_mask_blend_epi32(static_cast<__mmask16>(whole), read, bits));
      if constexpr (kScale) all = _mm512_mul_ps(all, back);
      _mm512_storeu_ps(kept + i, all);
    }
    const std::uint32_t tags = _pdep_u32(there ^ two ^ whole, 0x55555555) | _pdep_u32(two, 0xAAAAAAAA);
    if (whole == 0) [[likely]] {
      const __m512i both =
          _mm512_permutex2var_epi16(words, places, _mm512_castsi128_si512(_mm_cvtsi32_si128(static_cast<int>(tags))));
      const std::uint64_t keep = _pdep_u64(there, kLowBytes) | _pdep_u64(two, 2 * kLowBytes) | kTagBytes;
      // To a register and then to memory: compressing into memory costs a sixth.
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(keep, both));
      to += _mm_popcnt_u64(keep);
      continue;
    }
    const __m512i out = _mm512_mask_blend_epi32(static_cast<__mmask16>(whole), words, bits);
    if (whole == 0xFFFF) {
      for (int half = 0; half < 2; ++half, to += kLongestGroup) {
        store16(to, 0xFFFF);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2),
                            half ? _mm512_extracti64x4_epi64(out, 1) : _mm512_castsi512_si256(out));
      }
      continue;
    }
    const std::uint64_t keep = _pdep_u64(there, 0x1111111111111111) | _pdep_u64(two, 0x2222222222222222) |
                               _pdep_u64(whole, 0x4444444444444444) * 3;
    for (int half = 0; half < 2; ++half) {
      const auto kept = static_cast<__mmask32>(keep >> 32 * half);
      store16(to, tags >> 16 * half);
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(to + 2),
          _mm256_maskz_compress_epi8(kept, half ? _mm512_extracti64x4_epi64(out, 1) : _mm512_castsi512_si256(out)));
      to += 2 + _mm_popcnt_u32(kept);
    }
  }
  return to;
}

LACONIC_AVX512_INLINE std::uint64_t tags_at(const std::byte* from) {
  std::uint64_t tags = load16(from);
  asm("" : "+r"(tags));  // g++ would extend it again
  return tags;
}

/// Bytes of the payloads of a group that has no whole value. In a register of its own, to be an address's index: a
/// longer way from tags to the next tags would be what a step takes.
LACONIC_AVX512_INLINE std::ptrdiff_t short_bytes(std::uint64_t tags) {
  std::ptrdiff_t bytes = _mm_popcnt_u64(tags) + _mm_popcnt_u64(tags & 0xAAAA);
  asm("" : "+r"(bytes));
  return bytes;
}

/// g++ would fold the load into the expansion, whose memory form is slow.
LACONIC_AVX512_INLINE __m512i loaded(const std::byte* from) {
  __m512i v = _mm512_loadu_si512(from);
  asm("" : "+v"(v));
  return v;
}

struct Steps {
  __m512i magnitude, by24, by16;
  __m512 step8, step16;
  LACONIC_AVX512_INLINE explicit Steps(const InceptionnRule& r)
      : magnitude(_mm512_set1_epi32(0x7FFFFFFF)),
        by24(_mm512_set1_epi32(24)),
        by16(_mm512_set1_epi32(16)),
        step8(_mm512_set1_ps(0x1p-24f / r.scale8)),
        step16(_mm512_set1_ps(0x1p-16f / r.scale16)) {}
};

/// Two groups at p, which moves on behind them.
template <bool kAdd, bool kScale>
LACONIC_AVX512_INLINE void decode_step(const Steps& s, const std::byte*& p, const float* addend, float* x, __m512 by) {
  // From tags to length to the next tags: that is what a step takes, so nothing else may come in between.
  const std::uint64_t first = tags_at(p);
  const std::ptrdiff_t first_bytes = short_bytes(first);
  const std::uint64_t second = tags_at(p + 2 + first_bytes);
  auto tags = static_cast<std::uint32_t>(first | second << 16);
  __mmask16 whole = 0;
  __m512i lanes;
  if ((tags & tags >> 1 & 0x55555555) == 0) [[likely]] {
    // Both groups at once, each value into its lane; the second one's tags land in the unused half of lane 7.
    const std::uint64_t spread = _pdep_u64(tags | (tags >> 1 & 0x55555555), 0x3333333333333333) | 0xC0000000;
    lanes = _mm512_maskz_expand_epi8(spread, loaded(p + 2));
    const std::byte* at_next = p + 4 + first_bytes;
    asm("" : "+r"(at_next));  // before the second length is known
    p = at_next + short_bytes(second);
  } else {
    tags = 0;
    __m256i halves[2];
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t t = load16(p), w = t & t >> 1 & 0x5555;
      const auto spread = static_cast<__mmask32>(_pdep_u32(t | (t >> 1 & 0x5555), 0x33333333) |
                                                 _pdep_u32(_pext_u32(w, 0x5555), 0x44444444) * 3);
      __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2));
      asm("" : "+v"(v));
      halves[half] = _mm256_maskz_expand_epi8(spread, v);
      p += 2 + _mm_popcnt_u32(spread);
      tags |= t << 16 * half;
    }
    lanes = _mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1);
    whole = static_cast<__mmask16>(_pext_u32(tags & tags >> 1, 0x55555555));
  }
  const auto two = static_cast<__mmask16>(_pext_u32(tags, 0xAAAAAAAA));
  // Shifted up, the sign is in place, and what comes after it is exact as an integer and as a float.
  const __m512i up = _mm512_sllv_epi32(lanes, _mm512_mask_blend_epi32(two, s.by24, s.by16));
  const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_and_si512(up, s.magnitude)),
                                     _mm512_mask_blend_ps(two, s.step8, s.step16));
  __m512i y = _mm512_ternarylogic_epi32(_mm512_castps_si512(value), up, s.magnitude, 0xF4);  // imm: A | (B & ~C)
  if (whole) y = _mm512_mask_blend_epi32(whole, y, lanes);
  __m512 sum = _mm512_castsi512_ps(y);
  if constexpr (kScale) sum = _mm512_mul_ps(sum, by);
  if constexpr (kAdd) sum = _mm512_add_ps(_mm512_loadu_ps(addend), sum);
  _mm512_storeu_ps(x, sum);
}

using Vector = __m512;
LACONIC_AVX512_INLINE Vector all(float v) { return _mm512_set1_ps(v); }
#define LACONIC_ISA LACONIC_AVX512
#include "compress/inceptionn/kernels_loops.inc"

}  // namespace

const InceptionnKernels kInceptionnAvx512 = kKernels;

}  // namespace laconic::compress::cpu
#endif
