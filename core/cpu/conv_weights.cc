#include "core/cpu/conv_weights.h"

#include "core/base/error.h"
#include "core/base/parallel.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns of its own header's "undefined" operands (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define LACONIC_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

namespace laconic::cpu {
namespace {

constexpr std::int64_t kTile = 256;
/// Tiles worth a thread of their own.
constexpr std::int64_t kGrain = 64;

/// r[i][j] <-> r[j][i]: 32-bit, then 64-bit, then 128-bit neighbours change places.
LACONIC_AVX512 inline __attribute__((always_inline)) void transpose(__m512 r[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0xDD);
    }
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0x88);
    r[j + 8] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0xDD);
  }
}

/// Calls f(ob, ib) for all pairs of blocks, in parallel.
template <class F>
void each_block(std::int64_t O, std::int64_t I, std::int64_t K, F&& f) {
  const std::int64_t inner = I / 16;
  parallel_for(O / 16 * inner, (kGrain + K - 1) / K, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) f(b / inner, b % inner);
  });
}

// In plain order 16 output channels are 16 rows, in which 16 input channels are 16 K neighbours, c = i K + k. So tile j
// of 16 columns holds, for each of its columns c, the 16 values of one (i, k): a row of the blocked order.

LACONIC_AVX512 void pack_block(float* blocked, const float* plain, std::int64_t row, std::int64_t K) {
  std::int64_t i = 0, k = 0;
  for (std::int64_t tile = 0; tile < K; ++tile) {
    __m512 r[16];
    for (int o = 0; o < 16; ++o) r[o] = _mm512_loadu_ps(plain + o * row + tile * 16);
    transpose(r);
    for (int c = 0; c < 16; ++c) {
      _mm512_storeu_ps(blocked + k * kTile + i * 16, r[c]);
      if (++k == K) k = 0, ++i;
    }
  }
}

template <bool kAdd>
LACONIC_AVX512 void unpack_block(float* plain, const float* blocked, std::int64_t row, std::int64_t K) {
  std::int64_t i = 0, k = 0;
  for (std::int64_t tile = 0; tile < K; ++tile) {
    __m512 r[16];
    for (int c = 0; c < 16; ++c) {
      r[c] = _mm512_loadu_ps(blocked + k * kTile + i * 16);
      if (++k == K) k = 0, ++i;
    }
    transpose(r);
    for (int o = 0; o < 16; ++o) {
      float* to = plain + o * row + tile * 16;
      _mm512_storeu_ps(to, kAdd ? _mm512_add_ps(_mm512_loadu_ps(to), r[o]) : r[o]);
    }
  }
}

LACONIC_AVX512 void transpose_tile(float* to, const float* from) {
  __m512 r[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(from + 16 * i);
  transpose(r);
  for (int i = 0; i < 16; ++i) _mm512_storeu_ps(to + 16 * i, r[i]);
}

}  // namespace

void pack_16i16o(float* blocked, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  each_block(O, I, K, [=](std::int64_t o, std::int64_t i) {
    pack_block(blocked + (o * (I / 16) + i) * K * kTile, plain + o * 16 * I * K + i * 16 * K, I * K, K);
  });
}

void unpack_16i16o(float* plain, const float* blocked, std::int64_t O, std::int64_t I, std::int64_t K, bool add) {
  each_block(O, I, K, [=](std::int64_t o, std::int64_t i) {
    float* to = plain + o * 16 * I * K + i * 16 * K;
    const float* from = blocked + (o * (I / 16) + i) * K * kTile;
    add ? unpack_block<true>(to, from, I * K, K) : unpack_block<false>(to, from, I * K, K);
  });
}

void transpose_16i16o_to_16o16i(float* to, const float* from, std::int64_t O, std::int64_t I, std::int64_t K) {
  parallel_for(O * I * K / kTile, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) transpose_tile(to + t * kTile, from + t * kTile);
  });
}

}  // namespace laconic::cpu

#else

namespace laconic::cpu {

[[noreturn]] static void absent() { throw Error("conv: blocked weights need AVX-512."); }
void pack_16i16o(float*, const float*, std::int64_t, std::int64_t, std::int64_t) { absent(); }
void unpack_16i16o(float*, const float*, std::int64_t, std::int64_t, std::int64_t, bool) { absent(); }
void transpose_16i16o_to_16o16i(float*, const float*, std::int64_t, std::int64_t, std::int64_t) { absent(); }

}  // namespace laconic::cpu

#endif
