#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/select/residual.h"

/// The loops of compress/select/residual.h on host memory, for one chunk on one thread.
namespace laconic::compress::cpu {

/// Statistics are summed up by chunks of this many values, so that they depend on no number of threads.
inline constexpr std::size_t kChunk = 65536;

/// What the pass reads and writes: g = factor gradient + decay weight; U = momentum U + g; V += U, or momentum U + g.
struct ResidualPass {
  const float* gradient = nullptr;  ///< nullptr: V is only looked at
  const float* weight = nullptr;    ///< nullptr: no decay
  float* velocity = nullptr;        ///< nullptr: V += g
  float* residual = nullptr;
  float factor = 1, decay = 0, momentum = 0;
  bool nesterov = false;
};

template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay>
struct StepKind {
  static constexpr bool gradient = kGradient, velocity = kVelocity, nesterov = kNesterov, decay = kDecay;
};
/// Calls f with the kind of a pass: each is compiled for itself.
template <class F>
inline __attribute__((always_inline)) void with_kind(const ResidualPass& p, F&& f) {
  if (!p.gradient) return f(StepKind<false, false, false, false>{});
  if (!p.velocity) return p.weight ? f(StepKind<true, false, false, true>{}) : f(StepKind<true, false, false, false>{});
  if (!p.nesterov) return p.weight ? f(StepKind<true, true, false, true>{}) : f(StepKind<true, true, false, false>{});
  return p.weight ? f(StepKind<true, true, true, true>{}) : f(StepKind<true, true, true, false>{});
}

/// The step of one value, or of a vector of them. What the kind has not is neither read nor changed.
template <class Kind, class Value>
constexpr __attribute__((always_inline)) void residual_step(const ResidualPass& p, Value& v, Value& u,
                                                            const Value& grad, const Value& w) {
  if constexpr (Kind::gradient) {
    Value g = p.factor * grad;
    if constexpr (Kind::decay) g = g + p.decay * w;
    if constexpr (Kind::velocity) {
      u = p.momentum * u + g;
      v = v + (Kind::nesterov ? p.momentum * u + g : u);
    } else {
      v = v + g;
    }
  }
}

/// Value by value: of a chunk with a NaN, an infinity, or more than a float holds.
constexpr ResidualStats careful_stats(const float* v, std::size_t n) {
  ResidualStats s;
  s.elements = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (v[i] != v[i]) s.nan = true;
    if (v[i] > 0) s.sum_positive += static_cast<double>(v[i]), s.max_positive = std::max(s.max_positive, v[i]);
    if (v[i] < 0) s.sum_negative -= static_cast<double>(v[i]), s.max_negative = std::max(s.max_negative, -v[i]);
  }
  return s;
}

/// Values whose key (compress/select/selection.h) is at least `floor` go to indices and values, where there is room for
/// a chunk and 16 more. indices == nullptr: none do.
struct Emission {
  Sign sign = Sign::any;
  std::int32_t floor = 0;
  std::uint32_t first = 0;  ///< index of the chunk's first value
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::size_t count = 0;
};

/// Elements [0, n) of the pass, n <= kChunk.
ResidualStats residual_chunk(const ResidualPass& pass, std::size_t n, Emission& emission);

/// The emission alone. `dense`: where the values that are kept are too many to look for them group by group.
void emit_chunk(const float* values, std::size_t n, bool dense, Emission& emission);

/// Sums and extremes by lanes: lane l has seen the values l, l + 16, ... of the chunk.
struct ResidualSums {
  double positive[16] = {}, negative[16] = {};
  float largest[16] = {}, smallest[16] = {};
};
// With AVX-512, on x86-64: the pass with its emission, and the emission alone.
void residual_sums_avx512(const ResidualPass& pass, std::size_t n, Emission& emission, ResidualSums& sums);
void emit_chunk_avx512(const float* values, std::size_t n, bool dense, Emission& emission);

}  // namespace laconic::compress::cpu
