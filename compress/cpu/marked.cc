#include "compress/cpu/marked.h"

#include "compress/cpu/avx512.h"
#include "compress/cpu/isa.h"

namespace laconic::compress::cpu {
namespace {

std::size_t portable(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {  // without a branch, which would be mispredicted
    to[count] = first + static_cast<std::uint32_t>(i);
    count += marks[i];
  }
  return count;
}

#if defined(__x86_64__)
LACONIC_AVX512 std::size_t with_avx512(const std::uint8_t* marks, std::size_t n, std::uint32_t first,
                                       std::uint32_t* to) {
  const __m512i step = _mm512_set1_epi32(16);
  __m512i numbers = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)),
                                     _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; i += 16) {
    const __m128i sixteen = _mm_maskz_loadu_epi8(first_lanes(n - i), marks + i);
    const __mmask16 here = _mm_test_epi8_mask(sixteen, sixteen);
    _mm512_storeu_si512(to + count, _mm512_maskz_compress_epi32(here, numbers));
    count += static_cast<std::size_t>(__builtin_popcount(here));
    numbers = _mm512_add_epi32(numbers, step);
  }
  return count;
}
#endif

}  // namespace

std::size_t marked(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to) {
#if defined(__x86_64__)
  if (use_avx512()) return with_avx512(marks, n, first, to);
#endif
  return portable(marks, n, first, to);
}

}  // namespace laconic::compress::cpu
