#include "compress/inceptionn/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#define LACONIC_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

namespace laconic::compress::cpu {
namespace {

constexpr std::size_t kStep = kGroup, kReach = 2 + 32;  // bytes that a step of the decoder may read
constexpr int kNothing = 0x80;                         // zero, to a byte shuffle

/// Byte shuffles for four values, by their byte of tags: from lanes to what is sent, and back, to the top of each lane.
struct Shuffles {
  alignas(64) std::array<std::array<std::uint8_t, 16>, 256> pack{}, unpack{};
  std::array<std::uint8_t, 256> bytes{};
};
constexpr Shuffles kShuffles = [] {
  constexpr unsigned kBytes[4] = {0, 1, 2, 4};
  Shuffles s;
  for (unsigned tags = 0; tags < 256; ++tags) {
    s.pack[tags].fill(kNothing);
    s.unpack[tags].fill(kNothing);
    unsigned at = 0;
    for (unsigned value = 0; value < 4; ++value)
      for (unsigned b = 0, count = kBytes[tags >> 2 * value & 3]; b < count; ++b, ++at) {
        s.pack[tags][at] = static_cast<std::uint8_t>(4 * value + b);
        s.unpack[tags][4 * value + 4 - count + b] = static_cast<std::uint8_t>(at);
      }
    s.bytes[tags] = static_cast<std::uint8_t>(at);
  }
  return s;
}();

template <bool kTruncate, bool kKeep, bool kScale = false>
LACONIC_AVX2 std::byte* encode(const InceptionnRule& r, const float* x, std::size_t n, std::byte* to, float* kept,
                               float scale) {
  const __m256 by = _mm256_set1_ps(scale), back = _mm256_set1_ps(1 / scale);
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  // a >= limit is a > limit - 1
  const __m256i skip = _mm256_set1_epi32(static_cast<int>(r.skip) - 1),
                eight = _mm256_set1_epi32(static_cast<int>(r.eight) - 1),
                sixteen = _mm256_set1_epi32(static_cast<int>(r.sixteen) - 1);
  const __m256 scale8 = _mm256_set1_ps(r.scale8), scale16 = _mm256_set1_ps(r.scale16);
  const __m256 step8 = _mm256_set1_ps(1 / r.scale8), step16 = _mm256_set1_ps(1 / r.scale16);
  const __m256i low_byte = _mm256_set1_epi32(0xFF), sign8 = _mm256_set1_epi32(0x80), sign16 = _mm256_set1_epi32(0x8000);
  for (std::size_t i = 0; i < n; i += kGroup) {
    __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    if constexpr (kScale) bits = _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(bits), by));
    const __m256i a = _mm256_and_si256(bits, magnitude);
    const __m256i there = _mm256_cmpgt_epi32(a, skip), two = _mm256_cmpgt_epi32(a, eight),
                  whole = _mm256_cmpgt_epi32(a, sixteen);
    const __m256 scaled =
        _mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_blendv_ps(scale8, scale16, _mm256_castsi256_ps(two)));
    const __m256i q = kTruncate ? _mm256_cvttps_epi32(scaled) : _mm256_cvtps_epi32(scaled);
    const __m256i negative = _mm256_srai_epi32(bits, 31);
    const __m256i word = _mm256_or_si256(q, _mm256_and_si256(negative, _mm256_blendv_epi8(sign8, sign16, two)));
    const __m256i out = _mm256_blendv_epi8(word, bits, whole);
    if constexpr (kKeep) {
      const __m256 value =
          _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_blendv_ps(step8, step16, _mm256_castsi256_ps(two)));
      const __m256i coded = _mm256_or_si256(_mm256_castps_si256(value), _mm256_andnot_si256(magnitude, bits));
      __m256 read = _mm256_castsi256_ps(_mm256_blendv_epi8(_mm256_and_si256(coded, there), bits, whole));
      if constexpr (kScale) read = _mm256_mul_ps(read, back);
      _mm256_storeu_ps(kept + i, read);
    }
    // Tags: 16 bits a value that keep their sign when packed, the low byte all ones or none, the high byte too.
    const __m256i odd = _mm256_xor_si256(_mm256_xor_si256(there, two), whole);
    const __m256i pairs = _mm256_blendv_epi8(two, odd, low_byte);
    const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const auto tags = static_cast<unsigned>(_mm_movemask_epi8(packed));
    const auto low = static_cast<std::uint16_t>(tags);
    std::memcpy(to, &low, sizeof low);
    to += 2;
    for (int half = 0; half < 2; ++half) {
      const unsigned t = half ? tags >> 8 : tags & 0xFF;
      const __m128i four = half ? _mm256_extracti128_si256(out, 1) : _mm256_castsi256_si128(out);
      const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(kShuffles.pack[t].data()));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(four, order));
      to += kShuffles.bytes[t];
    }
  }
  return to;
}

#define LACONIC_AVX2_INLINE LACONIC_AVX2 inline __attribute__((always_inline))

struct Steps {
  __m256i magnitude, to_top;
  __m256 step8, step16;
  LACONIC_AVX2_INLINE explicit Steps(const InceptionnRule& r)
      : magnitude(_mm256_set1_epi32(0x7FFFFFFF)),
        to_top(_mm256_setr_epi32(30, 28, 26, 24, 22, 20, 18, 16)),
        step8(_mm256_set1_ps(0x1p-24f / r.scale8)),
        step16(_mm256_set1_ps(0x1p-16f / r.scale16)) {}
};

LACONIC_AVX2_INLINE __m128i unpacked(const std::byte* at, unsigned tags) {
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)),
                          _mm_load_si128(reinterpret_cast<const __m128i*>(kShuffles.unpack[tags].data())));
}

/// A group at p, which moves on behind it.
template <bool kAdd, bool kScale>
LACONIC_AVX2_INLINE void decode_step(const Steps& s, const std::byte*& p, const float* addend, float* x, __m256 by) {
  std::uint16_t tags16;
  std::memcpy(&tags16, p, sizeof tags16);
  const unsigned tags = tags16, whole = tags & tags >> 1 & 0x5555;
  const std::byte* const second = p + 2 + kShuffles.bytes[tags & 0xFF];
  const __m256i up = _mm256_set_m128i(unpacked(second, tags >> 8), unpacked(p + 2, tags & 0xFF));
  // By counting, not by the table: what the next address waits for is the tags' own way.
  p += 2 + _mm_popcnt_u32(tags) + _mm_popcnt_u32(tags & 0xAAAA) + _mm_popcnt_u32(whole);
  // The high bit of each tag in its lane's sign; then the low one.
  const __m256i high = _mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(tags)), s.to_top);
  const __m256i is_whole = _mm256_and_si256(high, _mm256_slli_epi32(high, 1));
  const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_and_si256(up, s.magnitude)),
                                     _mm256_blendv_ps(s.step8, s.step16, _mm256_castsi256_ps(high)));
  const __m256 coded = _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_andnot_si256(s.magnitude, up)));
  __m256 y = _mm256_blendv_ps(coded, _mm256_castsi256_ps(up), _mm256_castsi256_ps(is_whole));
  if constexpr (kScale) y = _mm256_mul_ps(y, by);
  if constexpr (kAdd) y = _mm256_add_ps(_mm256_loadu_ps(addend), y);
  _mm256_storeu_ps(x, y);
}

using Vector = __m256;
LACONIC_AVX2_INLINE Vector all(float v) { return _mm256_set1_ps(v); }
#define LACONIC_ISA LACONIC_AVX2
#include "compress/inceptionn/kernels_loops.inc"

}  // namespace

const InceptionnKernels kInceptionnAvx2 = kKernels;

}  // namespace laconic::compress::cpu
#endif
