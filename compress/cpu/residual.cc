#include "compress/cpu/residual.h"

#include <algorithm>
#include <cmath>

#include "compress/cpu/isa.h"
#include "compress/select/selection.h"
#include "core/cpu/simd.h"

namespace laconic::compress::cpu {
namespace {

using laconic::cpu::HalfLanes;
using laconic::cpu::load;
using laconic::cpu::store;

constexpr std::size_t kHalf = 8, kLanes = 2 * kHalf;
constexpr std::size_t kTile = 4096;  // values whose sum is a float; tiles are added up in double

template <class Kind>
LACONIC_INLINE void step(HalfLanes& v, const ResidualPass& p, std::size_t i) {
  HalfLanes g{}, w{}, u{};
  if constexpr (Kind::gradient) load(g, p.gradient + i);
  if constexpr (Kind::decay) load(w, p.weight + i);
  if constexpr (Kind::velocity) load(u, p.velocity + i);
  residual_step<Kind>(p, v, u, g, w);
  if constexpr (Kind::velocity) store(p.velocity + i, u);
  if constexpr (Kind::gradient) store(p.residual + i, v);
}

template <class Kind>
LACONIC_INLINE void tiles(const ResidualPass& p, std::size_t n, ResidualSums& sums) {
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
        step<Kind>(v, from, i + h * kHalf);
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
      if constexpr (Kind::gradient) copy(g, p.gradient + i);
      if constexpr (Kind::decay) copy(w, p.weight + i);
      if constexpr (Kind::velocity) copy(u, p.velocity + i);
      take({g, w, u, r, p.factor, p.decay, p.momentum, p.nesterov}, 0);
      if constexpr (Kind::gradient) copy(p.residual + i, r);
      if constexpr (Kind::velocity) copy(p.velocity + i, u);
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
LACONIC_MULTIVERSION void any_tiles(const ResidualPass& p, std::size_t n, ResidualSums& sums) {
  with_kind(
      p, [&]<class Kind>(Kind) __attribute__((always_inline)) { tiles<Kind>(p, n, sums); });
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

ResidualStats residual_chunk(const ResidualPass& pass, std::size_t n, Emission& emission) {
  ResidualSums sums;
  if (use_avx512()) {
    residual_sums_avx512(pass, n, emission, sums);
  } else {
    any_tiles(pass, n, sums);
    if (emission.indices) emit_groups(pass.residual, n, emission);
  }
  ResidualStats stats;
  stats.elements = n;
  for (std::size_t l = 0; l < kLanes; ++l) {
    stats.sum_positive += sums.positive[l], stats.sum_negative += sums.negative[l];
    stats.max_positive = std::max(stats.max_positive, sums.largest[l]);
    stats.max_negative = std::max(stats.max_negative, -sums.smallest[l]);
  }
  const bool finite = std::isfinite(stats.sum_positive) && std::isfinite(stats.sum_negative);
  return finite ? stats : careful_stats(pass.residual, n);
}

void emit_chunk(const float* values, std::size_t n, bool dense, Emission& emission) {
  return use_avx512() ? emit_chunk_avx512(values, n, dense, emission) : emit_groups(values, n, emission);
}

}  // namespace laconic::compress::cpu
