#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/residual.h"

/// The loops of compress/residual.h on host memory, for one chunk on one thread.
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

/// Values whose key (compress/magnitude.h) is at least `floor` go to indices and values, where there is room for a
/// chunk and 16 more. indices == nullptr: none do.
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
ResidualStats residual_chunk_portable(const ResidualPass& pass, std::size_t n, Emission& emission);
ResidualStats residual_chunk_avx512(const ResidualPass& pass, std::size_t n, Emission& emission);

/// The emission alone. `dense`: where so many will be kept that to look for them group by group does not pay.
void emit_chunk(const float* values, std::size_t n, bool dense, Emission& emission);
void emit_chunk_portable(const float* values, std::size_t n, Emission& emission);
void emit_chunk_avx512(const float* values, std::size_t n, bool dense, Emission& emission);

}  // namespace laconic::compress::cpu
