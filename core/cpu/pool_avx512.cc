#include "core/kernels/images.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <vector>

#define LACONIC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

namespace laconic::cpu {
namespace {

LACONIC_AVX512 inline __mmask16 first_lanes(std::int64_t n) {
  return n >= 16 ? __mmask16(0xFFFF) : n <= 0 ? __mmask16(0) : __mmask16((1u << n) - 1);
}

/// One output pixel. Constant bounds unroll the loops.
LACONIC_AVX512 inline __attribute__((always_inline)) void max_pixel(float* y, std::uint8_t* index, const float* x,
                                                                    std::int64_t row, std::int64_t width, int kernel,
                                                                    int h0, int h1, int w0, int w1) {
  for (std::int64_t c = 0; c < width; c += 16) {
    const __mmask16 m = first_lanes(width - c);
    __m512 best = _mm512_maskz_loadu_ps(m, x + h0 * row + w0 * width + c);
    __m512i at = _mm512_set1_epi32(h0 * kernel + w0);
    for (int i = h0; i < h1; ++i)
      for (int j = w0; j < w1; ++j) {
        const __m512 v = _mm512_maskz_loadu_ps(m, x + i * row + j * width + c);
        const __mmask16 better = _mm512_cmp_ps_mask(v, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        best = _mm512_mask_mov_ps(best, better, v);
        at = _mm512_mask_mov_epi32(at, better, _mm512_set1_epi32(i * kernel + j));
      }
    _mm512_mask_storeu_ps(y + c, m, best);
    if (index) _mm512_mask_cvtepi32_storeu_epi8(index + c, m, at);
  }
}

/// dy where the largest was at place q of the window, else 0.
LACONIC_AVX512 inline __attribute__((always_inline)) __m512 routed(__m512 dy, __m512i at, int q) {
  return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(at, _mm512_set1_epi32(q)), dy);
}
LACONIC_AVX512 inline __attribute__((always_inline)) __m512i load_index(__mmask16 m, const std::uint8_t* index) {
  return _mm512_maskz_cvtepu8_epi32(m, _mm_maskz_loadu_epi8(m, index));
}

// 2x2 windows over few channels (LeNet's 6): vectors that hold several pixels, permuted into place.

/// `per` windows at once: their outputs fill one vector, their inputs two per row.
LACONIC_AVX512 void max_forward_narrow(float* y, std::uint8_t* index, const float* x, const PoolShape& s,
                                       std::int64_t images) {
  const int width = static_cast<int>(s.width), per = 16 / width;
  std::int32_t even[16] = {}, odd[16] = {};  // the places of a window's left and right pixels
  for (int l = 0; l < per * width; ++l) {
    even[l] = 2 * width * (l / width) + l % width;
    odd[l] = even[l] + width;
  }
  const __m512i left = _mm512_loadu_si512(even), right = _mm512_loadu_si512(odd);
  const std::int64_t row = s.w * width;
  for (std::int64_t n = 0; n < images; ++n, x += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ow += per) {
        const std::int64_t count = std::min<std::int64_t>(per, s.out_w - ow) * width;
        const __mmask16 m = first_lanes(count), low = first_lanes(2 * count), high = first_lanes(2 * count - 16);
        __m512 best = _mm512_setzero_ps();
        __m512i at = _mm512_setzero_si512();
        for (int i = 0; i < 2; ++i) {
          const float* from = x + (2 * oh + i) * row + 2 * ow * width;
          const __m512 a = _mm512_maskz_loadu_ps(low, from), b = _mm512_maskz_loadu_ps(high, from + 16);
          for (int j = 0; j < 2; ++j) {
            const __m512 v = _mm512_permutex2var_ps(a, j ? right : left, b);
            const __mmask16 better =
                i + j == 0 ? __mmask16(0xFFFF)
                           : _mm512_cmp_ps_mask(v, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
            best = _mm512_mask_mov_ps(best, better, v);
            at = _mm512_mask_mov_epi32(at, better, _mm512_set1_epi32(2 * i + j));
          }
        }
        _mm512_mask_storeu_ps(y, m, best);
        y += count;
        if (!index) continue;
        _mm512_mask_cvtepi32_storeu_epi8(index, m, at);
        index += count;
      }
}

/// 16 floats of a row of dx and where in the row of dy their windows lie: at most 16 apart, since width <= 8.
struct Piece {
  std::int32_t base, column[16], from[16];
};

LACONIC_AVX512 void max_backward_narrow(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                                        std::int64_t images) {
  const std::int64_t row = s.w * s.width, out_row = s.out_w * s.width, covered = 2 * out_row;
  std::vector<Piece> pieces(static_cast<std::size_t>((covered + 15) / 16));
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    std::int64_t source[16];
    for (std::int64_t l = 0; l < 16; ++l) {
      const std::int64_t f = std::min<std::int64_t>(static_cast<std::int64_t>(p) * 16 + l, covered - 1),
                         pixel = f / s.width;
      source[l] = pixel / 2 * s.width + f % s.width;
      pieces[p].column[l] = static_cast<std::int32_t>(pixel % 2);
    }
    const std::int64_t base = *std::min_element(source, source + 16);
    pieces[p].base = static_cast<std::int32_t>(base);
    for (int l = 0; l < 16; ++l) pieces[p].from[l] = static_cast<std::int32_t>(source[l] - base);
  }
  for (std::int64_t n = 0; n < images; ++n, dx += s.h * row) {
    for (std::int64_t oh = 0; oh < s.out_h; ++oh, dy += out_row, index += out_row) {
      float* const top = dx + 2 * oh * row;
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        const Piece& piece = pieces[p];
        const std::int64_t done = static_cast<std::int64_t>(p) * 16;
        const __mmask16 in = first_lanes(out_row - piece.base), out = first_lanes(covered - done);
        const __m512i from = _mm512_loadu_si512(piece.from), column = _mm512_loadu_si512(piece.column);
        const __m512 g = _mm512_maskz_permutexvar_ps(0xFFFF, from, _mm512_maskz_loadu_ps(in, dy + piece.base));
        const __m512i at = _mm512_maskz_permutexvar_epi32(0xFFFF, from, load_index(in, index + piece.base));
        const __m512i mine = _mm512_sub_epi32(at, column);  // 0 or 2 where it is this column's
        _mm512_mask_storeu_ps(top + done, out, routed(g, mine, 0));
        _mm512_mask_storeu_ps(top + row + done, out, routed(g, mine, 2));
      }
      for (int i = 0; i < 2; ++i) std::fill(top + i * row + covered, top + (i + 1) * row, 0.0f);
    }
    std::fill(dx + 2 * s.out_h * row, dx + s.h * row, 0.0f);
  }
}

LACONIC_AVX512 void max_backward_disjoint(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                                          std::int64_t images) {
  const std::int64_t row = s.w * s.width, covered = 2 * s.out_w * s.width;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t oh = 0; oh < s.out_h; ++oh, dx += 2 * row) {
      float* out = dx;
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, out += 2 * s.width, dy += s.width, index += s.width)
        for (std::int64_t c = 0; c < s.width; c += 16) {
          const __mmask16 m = first_lanes(s.width - c);
          const __m512i at = load_index(m, index + c);
          const __m512 g = _mm512_maskz_loadu_ps(m, dy + c);
          _mm512_mask_storeu_ps(out + c, m, routed(g, at, 0));
          _mm512_mask_storeu_ps(out + s.width + c, m, routed(g, at, 1));
          _mm512_mask_storeu_ps(out + row + c, m, routed(g, at, 2));
          _mm512_mask_storeu_ps(out + row + s.width + c, m, routed(g, at, 3));
        }
      std::fill(dx + covered, dx + row, 0.0f);
      std::fill(dx + row + covered, dx + 2 * row, 0.0f);
    }
    const std::int64_t rest = (s.h - 2 * s.out_h) * row;
    std::fill(dx, dx + rest, 0.0f);
    dx += rest;
  }
}

}  // namespace

LACONIC_AVX512 void max_forward_avx512(float* y, std::uint8_t* index, const float* x, const PoolShape& s,
                                       std::int64_t images) {
  if (s.disjoint() && s.width <= 8) return max_forward_narrow(y, index, x, s, images);
  const std::int64_t row = s.w * s.width;
  for (std::int64_t n = 0; n < images; ++n, x += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
      const std::int64_t top = oh * s.stride - s.pad;
      const int h0 = static_cast<int>(std::max<std::int64_t>(0, -top)),
                h1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.h - top));
      for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
        const std::int64_t left = ow * s.stride - s.pad;
        const int w0 = static_cast<int>(std::max<std::int64_t>(0, -left)),
                  w1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.w - left));
        const float* corner = x + top * row + left * s.width;
        if (s.kernel == 2 && h1 - h0 == 2 && w1 - w0 == 2)
          max_pixel(y, index, corner, row, s.width, 2, 0, 2, 0, 2);
        else if (s.kernel == 3 && h1 - h0 == 3 && w1 - w0 == 3)
          max_pixel(y, index, corner, row, s.width, 3, 0, 3, 0, 3);
        else
          max_pixel(y, index, corner, row, s.width, s.kernel, h0, h1, w0, w1);
        y += s.width;
        if (index) index += s.width;
      }
    }
}

LACONIC_AVX512 void max_backward_avx512(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                                        std::int64_t images) {
  if (s.disjoint())
    return s.width <= 8 ? max_backward_narrow(dx, dy, index, s, images)
                        : max_backward_disjoint(dx, dy, index, s, images);
  const std::int64_t row = s.w * s.width;
  std::fill(dx, dx + images * s.h * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, dy += s.width, index += s.width) {
        const std::int64_t top = oh * s.stride - s.pad, left = ow * s.stride - s.pad;
        const int h0 = static_cast<int>(std::max<std::int64_t>(0, -top)),
                  h1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.h - top));
        const int w0 = static_cast<int>(std::max<std::int64_t>(0, -left)),
                  w1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.w - left));
        for (std::int64_t c = 0; c < s.width; c += 16) {
          const __mmask16 m = first_lanes(s.width - c);
          const __m512i at = load_index(m, index + c);
          const __m512 g = _mm512_maskz_loadu_ps(m, dy + c);
          for (int i = h0; i < h1; ++i)
            for (int j = w0; j < w1; ++j) {
              float* out = dx + (top + i) * row + (left + j) * s.width + c;
              _mm512_mask_storeu_ps(out, m,
                                    _mm512_add_ps(_mm512_maskz_loadu_ps(m, out), routed(g, at, s.kernel * i + j)));
            }
        }
      }
}

}  // namespace laconic::cpu

#else  // never called: has_avx512() is false
namespace laconic::cpu {
void max_forward_avx512(float*, std::uint8_t*, const float*, const PoolShape&, std::int64_t) {}
void max_backward_avx512(float*, const float*, const std::uint8_t*, const PoolShape&, std::int64_t) {}
}  // namespace laconic::cpu
#endif
