#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/cpu/residual.h"
#include "core/device.h"

/// The pass of compress/residual.h over device memory: the bits of the CPU, its sums too.
namespace laconic::compress {
class Candidates;
class StatsSum;
}  // namespace laconic::compress

namespace laconic::compress::cuda {

inline constexpr std::size_t kTile = 4096;  ///< elements whose sums are floats
inline constexpr std::size_t kSlots =
    64;  ///< candidates of a tile that are kept; where there are more, V is read again

struct Slot {
  std::uint32_t index;
  float value;
};

struct DeviceStats {
  double sum_positive, sum_negative;
  float max_positive, max_negative;
  std::uint32_t nan;
};

/// What a tile has at or above a floor goes here, by tile; counts null: nothing does.
struct TileCandidates {
  Sign sign = Sign::any;
  std::int32_t floor = 0;   ///< key
  std::uint32_t first = 0;  ///< index of the part's first element
  std::uint32_t *counts = nullptr, *firsts = nullptr, *lengths = nullptr;
  Slot* slots = nullptr;
};

/// *all, in device memory, += the statistics of n >= 1 elements. pass : device memory
void accumulate(const cpu::ResidualPass& pass, std::size_t n, const TileCandidates& candidates, DeviceStats* all);

/// The pass over a part of a tensor, from its element `first`. Only asks for it: candidates and statistics stay on the
/// device.
void run(const cpu::ResidualPass& pass, Device device, std::size_t n, std::uint32_t first, Candidates* candidates,
         StatsSum& stats);

}  // namespace laconic::compress::cuda
