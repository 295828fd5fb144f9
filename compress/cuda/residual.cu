#include "compress/cuda/bytes.cuh"
#include "compress/cuda/residual.h"
#include "compress/select/selection.h"
#include "core/cuda/launch.cuh"

namespace laconic::compress::cuda {
namespace {

using namespace laconic::cuda;

constexpr int kLanes = 16;                            // sums beside each other, as on the CPU
constexpr std::int64_t kTiles = cpu::kChunk / kTile;  // tiles of a chunk
constexpr std::int64_t kTileSize = kTile;

/// A lane's sum over a tile, of what is above 0 (the first 16) or below, and its extreme.
struct LaneSum {
  float sum, extreme;
};

/// The new values of a tile, also to `values`.
template <class Kind, bool kFours>
__device__ void change_tile(const cpu::ResidualPass& p, std::int64_t begin, int here, float* values) {
  if constexpr (kFours) {
    LACONIC_UNROLL(4)
    for (int j = 4 * threadIdx.x; j + 3 < here; j += 4 * kBlock) {
      const auto four = [=](const float* x) { return *reinterpret_cast<const float4*>(x + begin + j); };
      float4 v = four(p.residual), u{}, g{}, w{};
      if constexpr (Kind::gradient) g = four(p.gradient);
      if constexpr (Kind::decay) w = four(p.weight);
      if constexpr (Kind::velocity) u = four(p.velocity);
      cpu::residual_step<Kind>(p, v.x, u.x, g.x, w.x);
      cpu::residual_step<Kind>(p, v.y, u.y, g.y, w.y);
      cpu::residual_step<Kind>(p, v.z, u.z, g.z, w.z);
      cpu::residual_step<Kind>(p, v.w, u.w, g.w, w.w);
      if constexpr (Kind::velocity) *reinterpret_cast<float4*>(p.velocity + begin + j) = u;
      if constexpr (Kind::gradient) *reinterpret_cast<float4*>(p.residual + begin + j) = v;
      *reinterpret_cast<float4*>(values + j) = v;
    }
  }
  LACONIC_UNROLL(4)
  for (int j = (kFours ? here / 4 * 4 : 0) + threadIdx.x; j < here; j += kBlock) {
    const std::int64_t i = begin + j;
    float v = p.residual[i], u = 0;
    if constexpr (Kind::velocity) u = p.velocity[i];
    float g = 0, w = 0;
    if constexpr (Kind::gradient) g = p.gradient[i];
    if constexpr (Kind::decay) w = p.weight[i];
    cpu::residual_step<Kind>(p, v, u, g, w);
    if constexpr (Kind::velocity) p.velocity[i] = u;
    if constexpr (Kind::gradient) p.residual[i] = v;
    values[j] = v;
  }
}

/// A block takes a tile: all threads change it, then its first warp adds up in the CPU's order and the second looks
/// for candidates, while other blocks' threads keep memory busy.
template <class Kind, bool kFours>
__global__ void __launch_bounds__(kBlock)
    tile_kernel(cpu::ResidualPass p, std::int64_t n, TileCandidates candidates, LaneSum* sums) {
  __shared__ float4 fours[kTile / 4];
  float* const values = reinterpret_cast<float*>(fours);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (std::int64_t tile = blockIdx.x; tile * kTileSize < n; tile += gridDim.x) {
    const std::int64_t begin = tile * kTileSize;
    const int here = static_cast<int>(n - begin < kTileSize ? n - begin : kTileSize);
    change_tile<Kind, kFours>(p, begin, here, values);
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
      if (lane == 0) candidates.counts[tile] = count;
    }
    __syncthreads();  // the next tile takes its place
  }
}

__device__ bool finite(double x) { return x - x == 0; }

/// A warp takes a chunk.
__global__ void __launch_bounds__(kBlock) chunk_kernel(const LaneSum* sums, const float* residual, std::int64_t n,
                                                       std::int64_t chunks, ResidualStats* of_chunk) {
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
  ResidualStats s;
  s.elements = static_cast<std::uint64_t>(length);
  for (int l = 0; l < kLanes; ++l) {
    s.sum_positive += __shfl_sync(kAllLanes, sum, l);
    s.sum_negative += __shfl_sync(kAllLanes, sum, kLanes + l);
    const float above = __shfl_sync(kAllLanes, extreme, l), below = __shfl_sync(kAllLanes, extreme, kLanes + l);
    s.max_positive = above > s.max_positive ? above : s.max_positive;
    s.max_negative = below > s.max_negative ? below : s.max_negative;
  }
  if (lane == 0)
    // One thread looks at all values: that is the end of most runs.
    of_chunk[chunk] = finite(s.sum_positive) && finite(s.sum_negative)
                          ? s
                          : cpu::careful_stats(residual + begin, static_cast<std::size_t>(length));
}

/// The chunks in their order, by one warp whose lanes fetch them together.
__global__ void finish_kernel(const ResidualStats* of_chunk, std::int64_t chunks, ResidualStats* all) {
  ResidualStats part, next;
  if (threadIdx.x < chunks) next = of_chunk[threadIdx.x];
  for (std::int64_t first = 0; first < chunks; first += kWarp) {
    const ResidualStats mine = next;
    // On its way while these are added.
    if (first + kWarp + threadIdx.x < chunks) next = of_chunk[first + kWarp + threadIdx.x];
    const int here = chunks - first < kWarp ? static_cast<int>(chunks - first) : kWarp;
    for (int l = 0; l < here; ++l)
      part += {__shfl_sync(kAllLanes, mine.elements, l),     __shfl_sync(kAllLanes, mine.sum_positive, l),
               __shfl_sync(kAllLanes, mine.sum_negative, l), __shfl_sync(kAllLanes, mine.max_positive, l),
               __shfl_sync(kAllLanes, mine.max_negative, l), __shfl_sync(kAllLanes, int{mine.nan}, l) != 0};
  }
  if (threadIdx.x == 0) *all += part;
}

template <class Kind>
void tiles(const cpu::ResidualPass& p, std::int64_t n, const TileCandidates& candidates, LaneSum* sums) {
  const bool fours =
      aligned(p.residual, 16) && aligned(p.gradient, 16) && aligned(p.weight, 16) && aligned(p.velocity, 16);
  const std::int64_t count = (n + kTileSize - 1) / kTileSize;
  const unsigned grid = blocks_for(count * kBlock);
  launch(fours ? tile_kernel<Kind, true> : tile_kernel<Kind, false>, grid, kBlock, p, n, candidates, sums);
}

}  // namespace

void accumulate(const cpu::ResidualPass& p, std::size_t size, const TileCandidates& candidates, ResidualStats* all) {
  const auto n = static_cast<std::int64_t>(size), count = (n + kTileSize - 1) / kTileSize,
             chunks = (n + static_cast<std::int64_t>(cpu::kChunk) - 1) / static_cast<std::int64_t>(cpu::kChunk);
  Temporary<LaneSum> sums_of(static_cast<std::size_t>(count) * kWarp);
  Temporary<ResidualStats> chunks_of(static_cast<std::size_t>(chunks));
  LaneSum* const sums = sums_of.data();
  cpu::with_kind(p, [&]<class Kind>(Kind) { tiles<Kind>(p, n, candidates, sums); });
  launch(chunk_kernel, static_cast<unsigned>((chunks * kWarp + kBlock - 1) / kBlock), kBlock, sums, p.residual, n,
         chunks, chunks_of.data());
  launch(finish_kernel, 1, kWarp, chunks_of.data(), chunks, all);
}

}  // namespace laconic::compress::cuda
