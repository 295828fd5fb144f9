#include "compress/cuda/bytes.cuh"
#include "compress/cuda/residual.h"
#include "compress/magnitude.h"
#include "core/cuda/launch.cuh"

namespace laconic::compress::cuda {
namespace {

using namespace laconic::cuda;

constexpr int kLanes = 16;                            // sums beside each other, as on the CPU
constexpr std::int64_t kTiles = cpu::kChunk / kTile;  // of a chunk
constexpr std::int64_t kTileSize = kTile;

/// A lane's sum over a tile, of what is above 0 (the first 16) or below, and its extreme.
struct LaneSum {
  float sum, extreme;
};

template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay>
__device__ void step(const cpu::ResidualPass& p, float& v, float& u, float g, float w) {
  if constexpr (kGradient) {
    g = p.factor * g;
    if constexpr (kDecay) g = g + p.decay * w;
    if constexpr (kVelocity) {
      u = p.momentum * u + g;
      v = v + (kNesterov ? p.momentum * u + g : u);
    } else {
      v = v + g;
    }
  }
}

/// The new values of a tile, also to `values`.
template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay, bool kFours>
__device__ void change_tile(const cpu::ResidualPass& p, std::int64_t begin, int here, float* values) {
  if constexpr (kFours) {
    LACONIC_UNROLL(4)
    for (int j = 4 * threadIdx.x; j + 3 < here; j += 4 * kBlock) {
      const auto four = [=](const float* x) { return *reinterpret_cast<const float4*>(x + begin + j); };
      float4 v = four(p.residual), u{}, g{}, w{};
      if constexpr (kGradient) g = four(p.gradient);
      if constexpr (kDecay) w = four(p.weight);
      if constexpr (kVelocity) u = four(p.velocity);
      step<kGradient, kVelocity, kNesterov, kDecay>(p, v.x, u.x, g.x, w.x);
      step<kGradient, kVelocity, kNesterov, kDecay>(p, v.y, u.y, g.y, w.y);
      step<kGradient, kVelocity, kNesterov, kDecay>(p, v.z, u.z, g.z, w.z);
      step<kGradient, kVelocity, kNesterov, kDecay>(p, v.w, u.w, g.w, w.w);
      if constexpr (kVelocity) *reinterpret_cast<float4*>(p.velocity + begin + j) = u;
      if constexpr (kGradient) *reinterpret_cast<float4*>(p.residual + begin + j) = v;
      *reinterpret_cast<float4*>(values + j) = v;
    }
  }
  LACONIC_UNROLL(4)
  for (int j = (kFours ? here / 4 * 4 : 0) + threadIdx.x; j < here; j += kBlock) {
    const std::int64_t i = begin + j;
    float v = p.residual[i], u = 0;
    if constexpr (kVelocity) u = p.velocity[i];
    float g = 0, w = 0;
    if constexpr (kGradient) g = p.gradient[i];
    if constexpr (kDecay) w = p.weight[i];
    step<kGradient, kVelocity, kNesterov, kDecay>(p, v, u, g, w);
    if constexpr (kVelocity) p.velocity[i] = u;
    if constexpr (kGradient) p.residual[i] = v;
    values[j] = v;
  }
}

/// A block takes a tile: all threads change it, then its first warp adds up in the CPU's order and the second looks
/// for candidates, while other blocks' threads keep memory busy.
template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay, bool kFours>
__global__ void __launch_bounds__(kBlock)
    tile_kernel(cpu::ResidualPass p, std::int64_t n, TileCandidates candidates, LaneSum* sums) {
  __shared__ float4 fours[kTile / 4];
  float* const values = reinterpret_cast<float*>(fours);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (std::int64_t tile = blockIdx.x; tile * kTileSize < n; tile += gridDim.x) {
    const std::int64_t begin = tile * kTileSize;
    const int here = static_cast<int>(n - begin < kTileSize ? n - begin : kTileSize);
    change_tile<kGradient, kVelocity, kNesterov, kDecay, kFours>(p, begin, here, values);
    __syncthreads();
    if (warp == 0) {
      const bool below = lane >= kLanes;
      LaneSum mine{0, 0};
      LACONIC_UNROLL(8)
      for (int j = lane % kLanes; j < here; j += kLanes) {
        const float v = values[j];  // NaNs go into both sums, and into neither extreme
        if (below) {
          mine.sum = mine.sum - (v > 0 ? 0.0f : v);
          mine.extreme = v < mine.extreme ? v : mine.extreme;
        } else {
          mine.sum = mine.sum + (v < 0 ? 0.0f : v);
          mine.extreme = v > mine.extreme ? v : mine.extreme;
        }
      }
      sums[tile * kWarp + lane] = mine;
    } else if (warp == 1 && candidates.counts) {
      unsigned count = 0;
      LACONIC_UNROLL(4)
      for (int j = 0; j < here; j += kWarp) {
        const float v = j + lane < here ? values[j + lane] : 0.0f;
        const bool in = j + lane < here && key_of(v, candidates.sign) >= candidates.floor;
        const unsigned hits = __ballot_sync(kAllLanes, in);
        const unsigned at = count + __popc(hits & ((1u << lane) - 1));
        if (in && at < kSlots)
          candidates.slots[tile * static_cast<std::int64_t>(kSlots) + at] = {
              candidates.first + static_cast<std::uint32_t>(begin + j + lane), v};
        count += __popc(hits);
      }
      if (lane == 0) {
        candidates.counts[tile] = count;
        candidates.firsts[tile] = candidates.first + static_cast<std::uint32_t>(begin);
        candidates.lengths[tile] = static_cast<std::uint32_t>(here);
      }
    }
    __syncthreads();  // before the next tile takes its place
  }
}

__device__ bool finite(double x) { return x - x == 0; }

/// A chunk with a NaN, an infinity, or more than a float holds. One thread: it is the end of most runs.
__device__ DeviceStats careful_stats(const float* v, std::int64_t n) {
  DeviceStats s{};
  for (std::int64_t i = 0; i < n; ++i) {
    if (v[i] != v[i]) s.nan = 1;
    if (v[i] > 0) {
      s.sum_positive += static_cast<double>(v[i]);
      s.max_positive = v[i] > s.max_positive ? v[i] : s.max_positive;
    }
    if (v[i] < 0) {
      s.sum_negative -= static_cast<double>(v[i]);
      s.max_negative = -v[i] > s.max_negative ? -v[i] : s.max_negative;
    }
  }
  return s;
}

/// A warp takes a chunk.
__global__ void __launch_bounds__(kBlock) chunk_kernel(const LaneSum* sums, const float* residual, std::int64_t n,
                                                       std::int64_t chunks, DeviceStats* of_chunk) {
  const std::int64_t chunk = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kWarp;
  if (chunk >= chunks) return;  // the whole warp
  const int lane = threadIdx.x % kWarp;
  const std::int64_t begin = chunk * static_cast<std::int64_t>(cpu::kChunk), left = n - begin,
                     length = left < static_cast<std::int64_t>(cpu::kChunk) ? left : cpu::kChunk,
                     tiles = (length + kTileSize - 1) / kTileSize;
  double sum = 0;
  float extreme = 0;
  LACONIC_UNROLL(4)
  for (std::int64_t t = 0; t < tiles; ++t) {
    const LaneSum mine = sums[(chunk * kTiles + t) * kWarp + lane];
    sum += static_cast<double>(mine.sum);
    const float magnitude = lane < kLanes ? mine.extreme : -mine.extreme;
    extreme = magnitude > extreme ? magnitude : extreme;
  }
  DeviceStats s{};
  for (int l = 0; l < kLanes; ++l) {
    s.sum_positive += __shfl_sync(kAllLanes, sum, l);
    s.sum_negative += __shfl_sync(kAllLanes, sum, kLanes + l);
    const float above = __shfl_sync(kAllLanes, extreme, l), below = __shfl_sync(kAllLanes, extreme, kLanes + l);
    s.max_positive = above > s.max_positive ? above : s.max_positive;
    s.max_negative = below > s.max_negative ? below : s.max_negative;
  }
  if (lane == 0)
    of_chunk[chunk] = finite(s.sum_positive) && finite(s.sum_negative) ? s : careful_stats(residual + begin, length);
}

__device__ void add_to(DeviceStats& all, double positive, double negative, float max_positive, float max_negative,
                       std::uint32_t nan) {
  all.sum_positive += positive, all.sum_negative += negative;
  all.max_positive = max_positive > all.max_positive ? max_positive : all.max_positive;
  all.max_negative = max_negative > all.max_negative ? max_negative : all.max_negative;
  all.nan |= nan;
}

/// The chunks in their order, by one warp whose lanes fetch them together.
__global__ void finish_kernel(const DeviceStats* of_chunk, std::int64_t chunks, DeviceStats* all) {
  DeviceStats part{};
  for (std::int64_t first = 0; first < chunks; first += kWarp) {
    DeviceStats mine{};
    if (first + threadIdx.x < chunks) mine = of_chunk[first + threadIdx.x];
    const int here = chunks - first < kWarp ? static_cast<int>(chunks - first) : kWarp;
    for (int l = 0; l < here; ++l)
      add_to(part, __shfl_sync(kAllLanes, mine.sum_positive, l), __shfl_sync(kAllLanes, mine.sum_negative, l),
             __shfl_sync(kAllLanes, mine.max_positive, l), __shfl_sync(kAllLanes, mine.max_negative, l),
             __shfl_sync(kAllLanes, mine.nan, l));
  }
  if (threadIdx.x == 0)
    add_to(*all, part.sum_positive, part.sum_negative, part.max_positive, part.max_negative, part.nan);
}

template <bool kGradient, bool kVelocity, bool kNesterov, bool kDecay>
void tiles(const cpu::ResidualPass& p, std::int64_t n, const TileCandidates& candidates, LaneSum* sums) {
  const bool fours =
      aligned(p.residual, 16) && aligned(p.gradient, 16) && aligned(p.weight, 16) && aligned(p.velocity, 16);
  const std::int64_t count = (n + kTileSize - 1) / kTileSize;
  const unsigned grid = blocks_for(count * kBlock);
  launch(fours ? tile_kernel<kGradient, kVelocity, kNesterov, kDecay, true>
               : tile_kernel<kGradient, kVelocity, kNesterov, kDecay, false>,
         grid, kBlock, p, n, candidates, sums);
}

}  // namespace

void accumulate(const cpu::ResidualPass& p, std::size_t size, const TileCandidates& candidates, DeviceStats* all) {
  const auto n = static_cast<std::int64_t>(size), count = (n + kTileSize - 1) / kTileSize,
             chunks = (n + static_cast<std::int64_t>(cpu::kChunk) - 1) / static_cast<std::int64_t>(cpu::kChunk);
  Temporary<LaneSum> sums_of(static_cast<std::size_t>(count) * kWarp);
  Temporary<DeviceStats> chunks_of(static_cast<std::size_t>(chunks));
  LaneSum* const sums = sums_of.data();
  if (!p.gradient)
    tiles<false, false, false, false>(p, n, candidates, sums);
  else if (!p.velocity && !p.weight)
    tiles<true, false, false, false>(p, n, candidates, sums);
  else if (!p.velocity)
    tiles<true, false, false, true>(p, n, candidates, sums);
  else if (!p.nesterov && !p.weight)
    tiles<true, true, false, false>(p, n, candidates, sums);
  else if (!p.nesterov)
    tiles<true, true, false, true>(p, n, candidates, sums);
  else if (!p.weight)
    tiles<true, true, true, false>(p, n, candidates, sums);
  else
    tiles<true, true, true, true>(p, n, candidates, sums);
  launch(chunk_kernel, static_cast<unsigned>((chunks * kWarp + kBlock - 1) / kBlock), kBlock, sums, p.residual, n,
         chunks, chunks_of.data());
  launch(finish_kernel, 1, kWarp, chunks_of.data(), chunks, all);
}

}  // namespace laconic::compress::cuda
