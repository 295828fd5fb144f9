#include "compress/cpu/select.h"

#include <algorithm>

#include "compress/cpu/avx512.h"
#include "compress/cpu/isa.h"
#include "compress/select/selection.h"
#include "core/cpu/simd.h"

namespace laconic::compress::cpu {
namespace {

LACONIC_MULTIVERSION std::int32_t to_keys_part(const std::int32_t* LACONIC_RESTRICT bits, std::size_t n,
                                               std::int32_t mask, std::int32_t flip,
                                               std::int32_t* LACONIC_RESTRICT keys) {
  std::int32_t largest = INT32_MIN;
  for (std::size_t j = 0; j < n; ++j) {
    keys[j] = (bits[j] & mask) ^ flip;
    largest = keys[j] > largest ? keys[j] : largest;
  }
  return largest;
}

LACONIC_MULTIVERSION std::size_t count_part(const std::int32_t* keys, std::size_t n, std::int32_t from) {
  std::uint32_t count = 0;
  for (std::size_t j = 0; j < n; ++j) count += keys[j] >= from;
  return count;
}

std::size_t compact_portable(const std::uint32_t* indices, const float* values, const std::int32_t* keys, std::size_t n,
                             std::int32_t key, std::size_t equal, std::uint32_t* out_indices, float* out_values) {
  std::size_t out = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const bool tie = keys[j] == key && equal > 0;
    equal -= tie;
    out_indices[out] = indices[j], out_values[out] = values[j];
    out += keys[j] > key || tie;
  }
  return out;
}

std::size_t marked_portable(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {  // no branch, which would be mispredicted
    to[count] = first + static_cast<std::uint32_t>(i);
    count += marks[i];
  }
  return count;
}

#if defined(__x86_64__)
LACONIC_AVX512 std::size_t compact_avx512(const std::uint32_t* indices, const float* values, const std::int32_t* keys,
                                          std::size_t n, std::int32_t key, std::size_t equal,
                                          std::uint32_t* out_indices, float* out_values) {
  const __m512i cut = _mm512_set1_epi32(key);
  std::size_t out = 0;
  for (std::size_t j = 0; j < n; j += 16) {
    const __mmask16 in = first_lanes(n - j);
    const __m512i x = _mm512_maskz_loadu_epi32(in, keys + j);
    __mmask16 taken = _mm512_mask_cmpgt_epi32_mask(in, x, cut);
    const __mmask16 ties = _mm512_mask_cmpeq_epi32_mask(in, x, cut);
    if (ties && equal > 0) {
      const __mmask16 first = equal >= 16 ? ties : static_cast<__mmask16>(_pdep_u32((1u << equal) - 1, ties));
      equal -= static_cast<std::size_t>(_mm_popcnt_u32(first));
      taken |= first;
    }
    _mm512_storeu_si512(out_indices + out,
                        _mm512_maskz_compress_epi32(taken, _mm512_maskz_loadu_epi32(in, indices + j)));
    _mm512_storeu_ps(out_values + out, _mm512_maskz_compress_ps(taken, _mm512_maskz_loadu_ps(in, values + j)));
    out += static_cast<std::size_t>(_mm_popcnt_u32(taken));
  }
  return out;
}

LACONIC_AVX512 std::int32_t largest_of_line_avx512(const float* values, Sign sign) {
  return _mm512_reduce_max_epi32(KeyRule(sign)(_mm512_loadu_ps(values)));
}

LACONIC_AVX512 std::size_t marked_avx512(const std::uint8_t* marks, std::size_t n, std::uint32_t first,
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

std::int32_t to_keys(const float* values, std::size_t n, Sign sign, std::int32_t* keys) {
  // This is key_of's rule, in a form that vectorises.
  const std::int32_t mask = sign == Sign::any ? 0x7FFFFFFF : -1, flip = sign == Sign::negative ? INT32_MIN : 0;
  return to_keys_part(reinterpret_cast<const std::int32_t*>(values), n, mask, flip, keys);
}

std::int32_t largest_of_line(const float* values, Sign sign) {
#if defined(__x86_64__)
  if (use_avx512()) return largest_of_line_avx512(values, sign);
#endif
  std::int32_t largest = INT32_MIN;
  for (int l = 0; l < 16; ++l) largest = std::max(largest, key_of(values[l], sign));
  return largest;
}

std::size_t count_from(const std::int32_t* keys, std::size_t n, std::int32_t from) { return count_part(keys, n, from); }

std::size_t compact(const std::uint32_t* indices, const float* values, const std::int32_t* keys, std::size_t n,
                    std::int32_t key, std::size_t equal, std::uint32_t* out_indices, float* out_values) {
#if defined(__x86_64__)
  if (use_avx512()) return compact_avx512(indices, values, keys, n, key, equal, out_indices, out_values);
#endif
  return compact_portable(indices, values, keys, n, key, equal, out_indices, out_values);
}

std::size_t marked(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to) {
#if defined(__x86_64__)
  if (use_avx512()) return marked_avx512(marks, n, first, to);
#endif
  return marked_portable(marks, n, first, to);
}

}  // namespace laconic::compress::cpu
