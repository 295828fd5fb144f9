#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/cpu/residual.h"

/// The pass of compress/select/residual.h over device memory: the bits of the CPU, its sums too.
namespace laconic::compress::cuda {

inline constexpr std::size_t kTile = 4096;  ///< elements whose sums are floats
/// Candidates of a tile that are kept. Where there are more, V is read again.
inline constexpr std::size_t kSlots = 64;

struct Slot {
  std::uint32_t index;
  float value;
};

/// What a tile has at or above a floor goes here, by tile; counts null: nothing does.
struct TileCandidates {
  Sign sign = Sign::any;
  std::int32_t floor = 0;   ///< key
  std::uint32_t first = 0;  ///< index of the part's first element
  std::uint32_t* counts = nullptr;
  Slot* slots = nullptr;
};

/// *all, in device memory, += the statistics of n >= 1 elements. pass : device memory
void accumulate(const cpu::ResidualPass& pass, std::size_t n, const TileCandidates& candidates, ResidualStats* all);

}  // namespace laconic::compress::cuda
