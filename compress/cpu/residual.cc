#include "compress/cpu/residual.h"

#include <algorithm>
#include <cmath>

#include "compress/cpu/isa.h"
#include "compress/magnitude.h"
#include "core/cpu/simd.h"

namespace laconic::compress::cpu {
namespace {

using laconic::cpu::HalfLanes;
using laconic::cpu::load;
using laconic::cpu::store;

constexpr std::size_t kHalf = 8, kLanes = 2 * kHalf;
constexpr std::size_t kTile = 4096;  // floats are summed up over so many values, then doubles

/// Lane l has seen the values l, l + 16, ... of the chunk.
struct Sums {
  double positive[kLanes] = {}, negative[kLanes] = {};
  float largest[kLanes] = {}, smallest[kLanes] = {};
};

template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay>
LACONIC_INLINE void step(HalfLanes& v, const ResidualPass& p, std::size_t i) {
  if constexpr (!kGradient) return;
  HalfLanes g;
  load(g, p.gradient + i);
  g = p.factor * g;
  if constexpr (kDecay) {
    HalfLanes w;
    load(w, p.weight + i);
    g = g + p.decay * w;
  }
  if constexpr (kVelocity) {
    HalfLanes u;
    load(u, p.velocity + i);
    u = p.momentum * u + g;
    store(p.velocity + i, u);
    v = v + (kNesterov ? p.momentum * u + g : u);
  } else {
    v = v + g;
  }
  store(p.residual + i, v);
}

template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay>
LACONIC_INLINE void tiles(const ResidualPass& p, std::size_t n, Sums& sums) {
  const HalfLanes zero{};
  HalfLanes largest[2] = {}, smallest[2] = {};
  for (std::size_t begin = 0; begin < n; begin += kTile) {
    HalfLanes positive[2] = {}, negative[2] = {};
    const std::size_t end = begin + kTile < n ? begin + kTile : n;
    const auto take = [&](const ResidualPass& from, std::size_t i) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (std::size_t h = 0; h < 2; ++h) {
        HalfLanes v;
        load(v, from.residual + i + h * kHalf);
        step<kGradient, kVelocity, kNesterov, kDecay>(v, from, i + h * kHalf);
        // NaNs go into both sums, and into neither extreme.
        positive[h] = positive[h] + (v < zero ? zero : v);
        negative[h] = negative[h] - (v > zero ? zero : v);
        largest[h] = v > largest[h] ? v : largest[h];
        smallest[h] = v < smallest[h] ? v : smallest[h];
      }
    };
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) take(p, i);
    if (i < end) {  // a vector filled up with zeros
      alignas(64) float g[kLanes] = {}, w[kLanes] = {}, u[kLanes] = {}, r[kLanes] = {};
      const auto copy = [&](float* to, const float* from) {
        for (std::size_t l = 0; l < end - i; ++l) to[l] = from[l];
      };
      copy(r, p.residual + i);
      if constexpr (kGradient) copy(g, p.gradient + i);
      if constexpr (kDecay) copy(w, p.weight + i);
      if constexpr (kVelocity) copy(u, p.velocity + i);
      take({g, w, u, r, p.factor, p.decay, p.momentum, p.nesterov}, 0);
      if constexpr (kGradient) copy(p.residual + i, r);
      if constexpr (kVelocity) copy(p.velocity + i, u);
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      sums.positive[l] += static_cast<double>(positive[l / kHalf][l % kHalf]);
      sums.negative[l] += static_cast<double>(negative[l / kHalf][l % kHalf]);
    }
  }
  for (std::size_t h = 0; h < 2; ++h) {
    store(sums.largest + h * kHalf, largest[h]);
    store(sums.smallest + h * kHalf, smallest[h]);
  }
}

/// One function, so that all of it is compiled for every instruction set.
LACONIC_MULTIVERSION void any_tiles(const ResidualPass& p, std::size_t n, Sums& sums) {
  const int kind = !p.gradient ? 0 : !p.velocity ? (p.weight ? 2 : 1) : 3 + (p.weight ? 1 : 0) + (p.nesterov ? 2 : 0);
  switch (kind) {
    case 0:
      return tiles<false, false, false, false>(p, n, sums);
    case 1:
      return tiles<true, false, false, false>(p, n, sums);
    case 2:
      return tiles<true, false, false, true>(p, n, sums);
    case 3:
      return tiles<true, true, false, false>(p, n, sums);
    case 4:
      return tiles<true, true, false, true>(p, n, sums);
    case 5:
      return tiles<true, true, true, false>(p, n, sums);
    default:
      return tiles<true, true, true, true>(p, n, sums);
  }
}

LACONIC_MULTIVERSION void emit_groups(const float* values, std::size_t n, Emission& e) {
  constexpr std::size_t kGroup = 64;  // most have none
  const Sign sign = e.sign;
  const auto key = [sign](float v) { return key_of(v, sign); };
  for (std::size_t i = 0; i < n; i += kGroup) {
    const std::size_t end = std::min(n, i + kGroup);
    if (end == i + kGroup) {
      std::int32_t largest = key(values[i]);
      for (std::size_t j = 1; j < kGroup; ++j) largest = std::max(largest, key(values[i + j]));
      if (largest < e.floor) continue;
    }
    for (std::size_t j = i; j < end; ++j)
      if (key(values[j]) >= e.floor) {
        e.indices[e.count] = e.first + static_cast<std::uint32_t>(j);
        e.values[e.count] = values[j];
        ++e.count;
      }
  }
}

}  // namespace

/// The sums of a chunk with a NaN, an infinity, or more than a float holds.
ResidualStats careful_stats(const float* v, std::size_t n) {
  ResidualStats s;
  s.elements = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::isnan(v[i])) s.nan = true;
    if (v[i] > 0) s.sum_positive += static_cast<double>(v[i]), s.max_positive = std::max(s.max_positive, v[i]);
    if (v[i] < 0) s.sum_negative -= static_cast<double>(v[i]), s.max_negative = std::max(s.max_negative, -v[i]);
  }
  return s;
}

ResidualStats residual_chunk_portable(const ResidualPass& pass, std::size_t n, Emission& emission) {
  Sums sums;
  any_tiles(pass, n, sums);
  ResidualStats stats;
  stats.elements = n;
  for (std::size_t l = 0; l < kLanes; ++l) {
    stats.sum_positive += sums.positive[l], stats.sum_negative += sums.negative[l];
    stats.max_positive = std::max(stats.max_positive, sums.largest[l]);
    stats.max_negative = std::max(stats.max_negative, -sums.smallest[l]);
  }
  if (!std::isfinite(stats.sum_positive) || !std::isfinite(stats.sum_negative)) stats = careful_stats(pass.residual, n);
  if (emission.indices) emit_chunk_portable(pass.residual, n, emission);
  return stats;
}

void emit_chunk_portable(const float* values, std::size_t n, Emission& emission) { emit_groups(values, n, emission); }

ResidualStats residual_chunk(const ResidualPass& pass, std::size_t n, Emission& emission) {
  return use_avx512() ? residual_chunk_avx512(pass, n, emission) : residual_chunk_portable(pass, n, emission);
}

void emit_chunk(const float* values, std::size_t n, bool dense, Emission& emission) {
  return use_avx512() ? emit_chunk_avx512(values, n, dense, emission) : emit_chunk_portable(values, n, emission);
}

}  // namespace laconic::compress::cpu
