#include <algorithm>

#include "compress/cpu/avx512.h"
#include "compress/cpu/residual.h"

#if defined(__x86_64__)
namespace laconic::compress::cpu {
namespace {

// Hits are looked for two vectors at a time and then both are kept, hits or none: fewer branches that are guessed wrong
// than with larger groups, and no second one inside.
constexpr std::size_t kLanes = 16, kPair = 2 * kLanes, kTile = 4096;

/// The hits of one vector, packed in registers: vpcompressd to memory is slow.
LACONIC_AVX512_INLINE void keep(__mmask16 hits, __m512 v, std::uint32_t index, Emission& e) {
  const __m512i at = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(index)),
                                      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  _mm512_storeu_si512(e.indices + e.count, _mm512_maskz_compress_epi32(hits, at));
  _mm512_storeu_ps(e.values + e.count, _mm512_maskz_compress_ps(hits, v));
  e.count += static_cast<std::size_t>(_mm_popcnt_u32(hits));
}

/// The hits of two vectors, whose first value has this index.
LACONIC_AVX512_INLINE void keep_pair(__m512 v0, __m512 v1, std::uint32_t index, const KeyRule& key, __m512i floor,
                                     Emission& e) {
  const __mmask16 hits0 = _mm512_cmpge_epi32_mask(key(v0), floor), hits1 = _mm512_cmpge_epi32_mask(key(v1), floor);
  if (hits0 | hits1) [[unlikely]] {
    keep(hits0, v0, index, e);
    keep(hits1, v1, index + static_cast<std::uint32_t>(kLanes), e);
  }
}

/// What does not fill two vectors.
LACONIC_AVX512_INLINE void keep_rest(const float* values, std::size_t n, std::uint32_t index, const KeyRule& key,
                                     __m512i floor, Emission& e) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask16 in = first_lanes(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(in, values + i);
    keep(_mm512_mask_cmpge_epi32_mask(in, key(v), floor), v, index + static_cast<std::uint32_t>(i), e);
  }
}

struct Sums {
  __m512d positive[2], negative[2];
  __m512 largest, smallest;
};

LACONIC_AVX512_INLINE void flush(__m512 lanes, __m512d (&sum)[2]) {
  sum[0] = _mm512_add_pd(sum[0], _mm512_cvtps_pd(_mm512_castps512_ps256(lanes)));
  sum[1] = _mm512_add_pd(sum[1], _mm512_cvtps_pd(_mm512_extractf32x8_ps(lanes, 1)));
}

/// A vector from memory and back: whole, or its first lanes.
struct Whole {
  LACONIC_AVX512_INLINE __m512 load(const float* from) const { return _mm512_loadu_ps(from); }
  LACONIC_AVX512_INLINE void store(float* to, __m512 v) const { _mm512_storeu_ps(to, v); }
};
struct Begun {
  __mmask16 in;
  LACONIC_AVX512_INLINE __m512 load(const float* from) const { return _mm512_maskz_loadu_ps(in, from); }
  LACONIC_AVX512_INLINE void store(float* to, __m512 v) const { _mm512_mask_storeu_ps(to, in, v); }
};

/// 16 values of the pass, which are loaded, changed and stored at different times: loads that wait behind stores cost
/// up to a sixth of the pass.
template <class Kind>
struct Step {
  __m512 v, u, g;

  template <class Access>
  LACONIC_AVX512_INLINE void load(const ResidualPass& p, std::size_t i, const Access& access) {
    v = access.load(p.residual + i);
    if constexpr (Kind::gradient) g = _mm512_mul_ps(_mm512_set1_ps(p.factor), access.load(p.gradient + i));
    if constexpr (Kind::decay) g = _mm512_add_ps(g, _mm512_mul_ps(_mm512_set1_ps(p.decay), access.load(p.weight + i)));
    if constexpr (Kind::velocity) u = access.load(p.velocity + i);
  }
  LACONIC_AVX512_INLINE void change(const ResidualPass& p) {
    if constexpr (Kind::velocity) {
      const __m512 m = _mm512_set1_ps(p.momentum);
      u = _mm512_add_ps(_mm512_mul_ps(m, u), g);
      v = _mm512_add_ps(v, Kind::nesterov ? _mm512_add_ps(_mm512_mul_ps(m, u), g) : u);
    } else if constexpr (Kind::gradient) {
      v = _mm512_add_ps(v, g);
    }
  }
  template <class Access>
  LACONIC_AVX512_INLINE void store(const ResidualPass& p, std::size_t i, const Access& access) const {
    if constexpr (Kind::velocity) access.store(p.velocity + i, u);
    if constexpr (Kind::gradient) access.store(p.residual + i, v);
  }
};

template <class Kind, bool kEmit>
LACONIC_AVX512 void tiles(const ResidualPass& p, std::size_t n, Emission& e, Sums& sums) {
  const KeyRule key(e.sign);
  const __m512i floor = _mm512_set1_epi32(e.floor);
  const __m512 zero = _mm512_setzero_ps();
  for (std::size_t begin = 0; begin < n; begin += kTile) {
    const std::size_t end = std::min(begin + kTile, n);
    __m512 positive = zero, negative = zero;
    // The second operand is the result where one of them is NaN: in both sums, in neither extreme.
    const auto note = [&](__m512 v) LACONIC_AVX512 __attribute__((always_inline)) {
      positive = _mm512_add_ps(positive, _mm512_max_ps(zero, v));
      negative = _mm512_sub_ps(negative, _mm512_min_ps(zero, v));
      sums.largest = _mm512_max_ps(v, sums.largest);
      sums.smallest = _mm512_min_ps(v, sums.smallest);
    };
    std::size_t i = begin;
    Step<Kind> s0, s1;
    for (; i + kPair <= end; i += kPair) {
      s0.load(p, i, Whole{});
      s1.load(p, i + kLanes, Whole{});
      s0.change(p);
      s1.change(p);
      s0.store(p, i, Whole{});
      s1.store(p, i + kLanes, Whole{});
      const __m512 v0 = s0.v, v1 = s1.v;
      note(v0);
      note(v1);
      if constexpr (kEmit) keep_pair(v0, v1, e.first + static_cast<std::uint32_t>(i), key, floor, e);
    }
    const std::size_t rest = i;
    for (; i < end; i += kLanes) {
      const Begun begun{first_lanes(end - i)};
      s0.load(p, i, begun);
      s0.change(p);
      s0.store(p, i, begun);
      note(s0.v);
    }
    if constexpr (kEmit)
      if (rest < end)
        keep_rest(p.residual + rest, end - rest, e.first + static_cast<std::uint32_t>(rest), key, floor, e);
    flush(positive, sums.positive);
    flush(negative, sums.negative);
  }
}

}  // namespace

LACONIC_AVX512 void residual_sums_avx512(const ResidualPass& p, std::size_t n, Emission& e, ResidualSums& all) {
  Sums sums{{_mm512_setzero_pd(), _mm512_setzero_pd()},
            {_mm512_setzero_pd(), _mm512_setzero_pd()},
            _mm512_setzero_ps(),
            _mm512_setzero_ps()};
  with_kind(p, [&]<class Kind>(Kind) LACONIC_AVX512 {
    e.indices ? tiles<Kind, true>(p, n, e, sums) : tiles<Kind, false>(p, n, e, sums);
  });
  for (std::size_t h = 0; h < 2; ++h) {
    _mm512_storeu_pd(all.positive + 8 * h, sums.positive[h]);
    _mm512_storeu_pd(all.negative + 8 * h, sums.negative[h]);
  }
  _mm512_storeu_ps(all.largest, sums.largest);
  _mm512_storeu_ps(all.smallest, sums.smallest);
}

LACONIC_AVX512 void emit_chunk_avx512(const float* values, std::size_t n, bool dense, Emission& e) {
  const KeyRule key(e.sign);
  const __m512i floor = _mm512_set1_epi32(e.floor);
  std::size_t i = 0;
  if (dense) {
    for (; i + kLanes <= n; i += kLanes) {
      _mm_prefetch(reinterpret_cast<const char*>(values + i + 1024), _MM_HINT_T0);
      const __m512 v = _mm512_loadu_ps(values + i);
      keep(_mm512_cmpge_epi32_mask(key(v), floor), v, e.first + static_cast<std::uint32_t>(i), e);
    }
  } else {
    for (; i + kPair <= n; i += kPair) {
      for (std::size_t j = 0; j < kPair; j += kLanes)
        _mm_prefetch(reinterpret_cast<const char*>(values + i + j + 1024), _MM_HINT_T0);
      const __m512 v0 = _mm512_loadu_ps(values + i), v1 = _mm512_loadu_ps(values + i + kLanes);
      keep_pair(v0, v1, e.first + static_cast<std::uint32_t>(i), key, floor, e);
    }
  }
  if (i < n) keep_rest(values + i, n - i, e.first + static_cast<std::uint32_t>(i), key, floor, e);
}

}  // namespace laconic::compress::cpu

#else  // never called: use_avx512() is false
namespace laconic::compress::cpu {
void residual_sums_avx512(const ResidualPass&, std::size_t, Emission&, ResidualSums&) {}
void emit_chunk_avx512(const float*, std::size_t, bool, Emission&) {}
}  // namespace laconic::compress::cpu
#endif
