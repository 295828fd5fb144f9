#include "compress/cpu/unpack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/cpu/avx512.h"
#include "compress/cpu/isa.h"
#include "core/cpu/simd.h"

namespace laconic::compress::cpu {
namespace {

void unpack_portable(const std::byte* from, unsigned width, std::size_t count, std::uint32_t* numbers) {
  std::byte padded[kBlock * 4 + 8] = {};
  std::memcpy(padded, from, (count * width + 7) / 8);
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  for (std::size_t j = 0; j < count; ++j) {
    std::uint64_t bits;
    std::memcpy(&bits, padded + j * width / 8, sizeof bits);
    numbers[j] = static_cast<std::uint32_t>(bits >> (j * width % 8) & mask);
  }
}

LACONIC_MULTIVERSION bool ascend_part(const std::uint32_t* indices, std::size_t count) {
  std::uint32_t wrong = 0;
  for (std::size_t j = 1; j < count; ++j) wrong |= indices[j] <= indices[j - 1];
  return wrong == 0;
}

#if defined(__x86_64__)
constexpr unsigned kWidest = 25;  // bits; shifted by up to 7 they lie within 4 bytes

/// Where the 16 numbers of 2 width bytes lie: the 4 bytes that hold each, and how far they have to be shifted.
struct Places {
  std::uint8_t bytes[kWidest + 1][64];
  std::uint32_t shifts[kWidest + 1][16];
};
constexpr Places kPlaces = [] {
  Places p{};
  for (unsigned width = 0; width <= kWidest; ++width)
    for (unsigned j = 0; j < 16; ++j) {
      for (unsigned b = 0; b < 4; ++b) {
        const unsigned at = j * width / 8 + b;
        p.bytes[width][4 * j + b] = static_cast<std::uint8_t>(at < 64 ? at : 63);
      }
      p.shifts[width][j] = j * width % 8;
    }
  return p;
}();

/// 16 numbers from the bytes at `from`, of which those before `end` may be read.
struct Unpacker {
  __m512i bytes, shifts, mask;
  LACONIC_AVX512_INLINE explicit Unpacker(unsigned width)
      : bytes(_mm512_loadu_si512(kPlaces.bytes[width])),
        shifts(_mm512_loadu_si512(kPlaces.shifts[width])),
        mask(_mm512_set1_epi32(static_cast<int>((1u << width) - 1))) {}
  LACONIC_AVX512_INLINE __m512i operator()(const std::byte* from, const std::byte* end) const {
    const auto there = static_cast<std::size_t>(end > from ? end - from : 0);
    const __m512i raw =
        there >= 64 ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8((std::uint64_t{1} << there) - 1, from);
    return _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi8(bytes, raw), shifts), mask);
  }
};

/// The sums of gap + 1 up to each lane that is in.
LACONIC_AVX512_INLINE __m512i sums(__m512i gaps, __mmask16 in) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i x = _mm512_maskz_add_epi32(in, gaps, _mm512_set1_epi32(1));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
  return _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
}
LACONIC_AVX512_INLINE std::uint32_t last_of(__m512i x) {
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm512_extracti32x4_epi32(x, 3), 3));
}

LACONIC_AVX512 void unpack_avx512(const std::byte* from, const std::byte* end, unsigned width, std::size_t count,
                                  std::uint32_t* numbers) {
  const Unpacker unpacked(width);
  for (std::size_t j = 0; j < count; j += 16, from += 2 * width) _mm512_storeu_si512(numbers + j, unpacked(from, end));
}

LACONIC_AVX512 std::uint64_t unpack_indices_avx512(const std::byte* from, const std::byte* end, unsigned width,
                                                   std::size_t count, std::uint64_t next, std::uint32_t* indices) {
  const Unpacker unpacked(width);
  for (std::size_t j = 0; j < count; j += 16, from += 2 * width) {
    const __m512i x = sums(unpacked(from, end), first_lanes(count - j));
    _mm512_storeu_si512(indices + j, _mm512_add_epi32(x, _mm512_set1_epi32(static_cast<int>(next - 1))));
    next += last_of(x);
  }
  return next;
}
#endif

}  // namespace

std::byte* pack(const std::uint32_t* numbers, std::size_t count, unsigned width, std::byte* to) {
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  std::uint64_t held = 0;
  unsigned bits = 0;
  for (std::size_t j = 0; j < count; ++j) {
    held |= (numbers[j] & mask) << bits;
    bits += width;
    if (bits < 32) continue;
    std::memcpy(to, &held, 4);
    to += 4, held >>= 32, bits -= 32;
  }
  std::memcpy(to, &held, (bits + 7) / 8);
  return to + (bits + 7) / 8;
}

void unpack(const std::byte* from, [[maybe_unused]] const std::byte* end, unsigned width, std::size_t count,
            std::uint32_t* numbers) {
#if defined(__x86_64__)
  if (use_avx512() && width <= kWidest) return unpack_avx512(from, end, width, count, numbers);
#endif
  unpack_portable(from, width, count, numbers);
}

void from_upper_bits(const std::byte* from, const std::byte* end, unsigned cut, std::size_t n, float* x) {
  const unsigned width = 32 - cut;
  std::uint32_t numbers[kBlock];
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t count = std::min(kBlock, n - i);
    unpack(from, end, width, count, numbers);
    for (std::size_t j = 0; j < count; ++j) x[i + j] = std::bit_cast<float>(numbers[j] << cut);
    from += (count * width + 7) / 8;
  }
}

std::uint64_t unpack_indices(const std::byte* from, const std::byte* end, unsigned width, std::size_t count,
                             std::uint64_t next, std::uint32_t* indices) {
#if defined(__x86_64__)
  if (use_avx512() && width <= kWidest) return unpack_indices_avx512(from, end, width, count, next, indices);
#endif
  unpack(from, end, width, count, indices);
  for (std::size_t j = 0; j < count; ++j) {
    const std::uint64_t index = next + indices[j];
    indices[j] = static_cast<std::uint32_t>(index);
    next = index + 1;
  }
  return next;
}

bool ascend(const std::uint32_t* indices, std::size_t count) { return ascend_part(indices, count); }

}  // namespace laconic::compress::cpu
