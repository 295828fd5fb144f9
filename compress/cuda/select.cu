#include "compress/cuda/compact.cuh"
#include "compress/cuda/select.h"
#include "compress/select/selection.h"
#include "core/base/random.h"

namespace laconic::compress::cuda {
namespace {

constexpr int kBins = 2048, kChooseThreads = 1024;
/// Where a round's digit begins in a key: the first has 11 bits, the others 10.
__host__ __device__ int shift_of(int round) { return 20 - 10 * round; }
constexpr int kLevels = 5, kThresholds = 31;  // levels of the bisection in one pass, and their thresholds

/// Adds up equal digits that follow each other before they go to shared memory: many values are alike, or zero.
class Run {
 public:
  __device__ void add(unsigned* bins, int digit) {
    if (digit != digit_) {
      flush(bins);
      digit_ = digit;
    }
    ++length_;
  }
  __device__ void flush(unsigned* bins) {
    if (length_ > 0) atomicAdd(&bins[digit_], length_);
    length_ = 0;
  }

 private:
  int digit_ = -1;
  unsigned length_ = 0;
};

/// f(value) for the values that fall to this thread of the grid. Several loads are under way at once: between what
/// f does to shared memory the compiler would leave one.
template <class F>
__device__ void each_value(const float* values, std::int64_t n, F f) {
  constexpr int kAhead = 8;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x; i < n; i += kAhead * stride) {
    float v[kAhead];
    LACONIC_UNROLL(8)
    for (int k = 0; k < kAhead; ++k) v[k] = i + k * stride < n ? values[i + k * stride] : 0.0f;
    LACONIC_UNROLL(8)
    for (int k = 0; k < kAhead; ++k)
      if (i + k * stride < n) f(v[k]);
  }
}

/// bins[0 … 2048) += digits of the keys that share the upper bits of the cut, bins[2048 … 4096) of the floor.
__global__ void __launch_bounds__(kBlock)
    digits_kernel(Source from, Sign sign, int round, SelectState* state, unsigned* bins) {
  __shared__ unsigned mine[2 * kBins];
  for (int i = threadIdx.x; i < 2 * kBins; i += kBlock) mine[i] = 0;
  __syncthreads();
  const int shift = shift_of(round), above = round == 0 ? 31 : shift_of(round - 1);
  const int mask = round == 0 ? kBins - 1 : kBins / 2 - 1;
  const std::int32_t lowest = lowest_key(sign);
  const std::int32_t cut = state->cut.key, floor = state->cut.floor;
  const bool both = round > 0;
  Run of_cut, of_floor;
  bool nan = false;
  each_value(from.values, size_of(from), [&](float v) {
    const std::int32_t key = key_of(v, sign);
    nan = nan || v != v;
    if (key < lowest) return;
    if (!both) {
      of_cut.add(mine, key >> shift);
    } else {
      if (key >> above == cut >> above) of_cut.add(mine, key >> shift & mask);
      if (key >> above == floor >> above) of_floor.add(mine + kBins, key >> shift & mask);
    }
  });
  of_cut.flush(mine);
  of_floor.flush(mine + kBins);
  if (nan) atomicOr(&state->cut.nan, 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * kBins; i += kBlock)
    if (mine[i] > 0) atomicAdd(&bins[i], mine[i]);
}

/// The digit in which the rank-th largest lies (rank from 1): *digit, and *left, its rank within. A thread has two
/// bins.
__device__ void digit_of_rank(const unsigned* bins, unsigned rank, std::int32_t* digit, unsigned* left) {
  const int upper = kBins - 1 - 2 * static_cast<int>(threadIdx.x);
  const unsigned high = bins[upper], low = bins[upper - 1];
  unsigned all = 0;
  unsigned before = block_before(high + low, &all);
  if (before < rank && rank <= before + high) *digit = upper, *left = rank - before;
  before += high;
  if (before < rank && rank <= before + low) *digit = upper - 1, *left = rank - before;
}

struct Wanted {
  unsigned k, target, need;
  bool remembered;
};

/// One block chooses the digits of a round, and clears the bins for the next.
__global__ void __launch_bounds__(kChooseThreads)
    choose_kernel(unsigned* bins, int round, Wanted wanted, std::int32_t lowest, SelectState* state) {
  __shared__ std::int32_t digit[3];
  __shared__ unsigned left[3];
  Cut& cut = state->cut;
  if (threadIdx.x < 3) digit[threadIdx.x] = 0, left[threadIdx.x] = 0;
  if (round == 0) {
    unsigned all = 0;
    block_before(bins[2 * threadIdx.x] + bins[2 * threadIdx.x + 1], &all);
    if (threadIdx.x == 0) {
      cut.competing = all;
      cut.chosen = wanted.k < all ? wanted.k : all;
      unsigned target = wanted.target;
      if (wanted.remembered && all > target) {
        const auto less = static_cast<unsigned>(static_cast<double>(target) * target / all);
        const unsigned least = wanted.need + (target - wanted.need) / 4;
        target = less > least ? less : least;
      }
      cut.target = target;
      cut.equal = cut.chosen;
      cut.floor_rank = target < all ? target : all;
      cut.key = cut.floor = 0;
    }
  }
  __syncthreads();
  const unsigned rank = cut.equal, floor_rank = cut.floor_rank;
  digit_of_rank(bins, rank, &digit[0], &left[0]);
  digit_of_rank(round == 0 ? bins : bins + kBins, floor_rank, &digit[1], &left[1]);
  if (round == 0) digit_of_rank(bins, (cut.competing + 1) / 2, &digit[2], &left[2]);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int shift = shift_of(round);
    cut.key |= digit[0] << shift, cut.equal = left[0];
    cut.floor |= digit[1] << shift, cut.floor_rank = left[1];
    if (round == 0) cut.middle = digit[2] << shift;
    if (round == 2) {
      if (cut.chosen == 0) cut.key = 0x7FFFFFFF, cut.equal = 0;
      if (cut.floor < lowest) cut.floor = lowest;
    }
  }
  for (int i = threadIdx.x; i < 2 * kBins; i += kChooseThreads) bins[i] = 0;
}

// ------------------------------------------------------------------------------------------------------ bisection

__device__ float threshold_at(const Bisection& b, double ratio) {
  return static_cast<float>(b.mean + ratio * (static_cast<double>(b.max) - b.mean));
}

/// What the five levels that were counted say, then the thresholds of the next five. One thread.
__global__ void bisect_kernel(SelectState* state, Sign sign, std::uint32_t k, std::int32_t floor, bool first) {
  if (threadIdx.x > 0) return;
  Bisection& b = state->bisection;
  if (first) {
    b.mean = state->stats.mean(sign), b.max = state->stats.max(sign);
    b.low = 0, b.high = 1, b.with_enough = -1, b.done = 0;
  } else if (!b.done) {
    int low = 0, high = kThresholds + 1;  // the thresholds between are b.keys[low … high - 2]
    for (int level = 0; level < kLevels; ++level) {
      if (!(b.high - b.low >= 0x1p-20)) {
        b.done = 1;
        break;
      }
      const double ratio = (b.low + b.high) / 2;
      const float threshold = threshold_at(b, ratio);
      if (!(threshold - threshold == 0)) {
        b.done = 1;
        break;
      }
      const int middle = (low + high) / 2;
      // Below the floor there are more than are looked for.
      const bool many = b.keys[middle - 1] < floor;
      const std::uint32_t reached = b.counts[middle - 1];
      if (many || reached >= k) b.with_enough = threshold;
      if (!many && reached < k) {
        b.high = ratio, high = middle;
      } else if (many || reached > 2 * static_cast<std::uint64_t>(k)) {
        b.low = ratio, low = middle;
      } else {
        b.done = 1;
        break;
      }
    }
  }
  if (b.done) return;
  const double width = (b.high - b.low) / (kThresholds + 1);
  for (int j = 0; j < kThresholds; ++j) {
    const float threshold = threshold_at(b, b.low + width * (j + 1));
    b.keys[j] = key_above(threshold, sign);
    b.counts[j] = 0;
  }
}

/// counts[j] = how many keys are at least keys[j].
__global__ void __launch_bounds__(kBlock) thresholds_kernel(Source from, Sign sign, SelectState* state) {
  __shared__ unsigned reached[kThresholds + 1];
  __shared__ std::int32_t keys[kThresholds];
  if (state->bisection.done) return;  // all of them
  for (int j = threadIdx.x; j <= kThresholds; j += kBlock) reached[j] = 0;
  // Where rounding has put the mean above the largest value they descend.
  const bool descend = state->bisection.keys[0] > state->bisection.keys[kThresholds - 1];
  for (int j = threadIdx.x; j < kThresholds; j += kBlock)
    keys[j] = state->bisection.keys[descend ? kThresholds - 1 - j : j];
  __syncthreads();
  Run run;
  each_value(from.values, size_of(from), [&](float v) {
    const std::int32_t key = key_of(v, sign);
    if (key < keys[0]) return;
    int below = 1;  // thresholds that it reaches
    for (int by = (kThresholds + 1) / 2; by > 0; by /= 2)
      if (below + by <= kThresholds && key >= keys[below + by - 1]) below += by;
    run.add(reached, below);
  });
  run.flush(reached);
  __syncthreads();
  if (threadIdx.x < kThresholds) {
    unsigned count = 0;
    for (int j = threadIdx.x + 1; j <= kThresholds; ++j) count += reached[j];
    const int j = descend ? kThresholds - 1 - static_cast<int>(threadIdx.x) : static_cast<int>(threadIdx.x);
    if (count > 0) atomicAdd(&state->bisection.counts[j], count);
  }
}

// ----------------------------------------------------------------------------------------------------- candidates

/// A warp takes a tile: what it has kept, or, where that is not all, what V says.
__global__ void __launch_bounds__(kBlock)
    gather_kernel(TileCandidates part, std::int64_t n, const Place* places, const float* values, std::int64_t most,
                  std::uint32_t* found_indices, float* found_values) {
  const std::int64_t tile = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kWarp;
  const std::int64_t begin = tile * static_cast<std::int64_t>(kTile), left = n - begin;
  if (left <= 0) return;  // the whole warp
  const int lane = threadIdx.x % kWarp;
  const unsigned count = part.counts[tile];
  std::int64_t at = places[tile].taken;
  if (count <= kSlots) {
    for (unsigned j = lane; j < count && at + j < most; j += kWarp) {
      const Slot slot = part.slots[tile * static_cast<std::int64_t>(kSlots) + j];
      found_indices[at + j] = slot.index, found_values[at + j] = slot.value;
    }
    return;
  }
  const std::uint32_t first = part.first + static_cast<std::uint32_t>(begin);
  const int length = left < static_cast<std::int64_t>(kTile) ? static_cast<int>(left) : static_cast<int>(kTile);
  for (int j = 0; j < length; j += kWarp) {
    const float v = j + lane < length ? values[static_cast<std::int64_t>(first) + j + lane] : 0.0f;
    const bool in = j + lane < length && key_of(v, part.sign) >= part.floor;
    const unsigned hits = __ballot_sync(kAllLanes, in);
    const std::int64_t to = at + __popc(hits & ((1u << lane) - 1));
    if (in && to < most) found_indices[to] = first + static_cast<std::uint32_t>(j + lane), found_values[to] = v;
    at += __popc(hits);
  }
}

__global__ void __launch_bounds__(kBlock)
    largest_of_bins_kernel(const float* values, std::int64_t n, std::int64_t bin, std::int32_t* largest) {
  const std::int64_t b = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kWarp, first = b * bin;
  if (first >= n) return;  // the whole warp
  const std::int64_t end = n < first + bin ? n : first + bin;
  std::int32_t most = 1;  // a bin of zeros sends nothing
  LACONIC_UNROLL(8)
  for (std::int64_t i = first + threadIdx.x % kWarp; i < end; i += kWarp) {
    const std::int32_t key = key_of(values[i], Sign::any);
    most = key > most ? key : most;
  }
  most = warp_reduce(most, Max{});
  if (threadIdx.x % kWarp == 0) largest[b] = most;
}

}  // namespace

void gather_candidates(const TileCandidates& part, std::size_t n, const float* values, std::size_t most,
                       std::uint32_t* found_indices, float* found_values, Counted* all) {
  const auto size = static_cast<std::int64_t>(n), tiles = static_cast<std::int64_t>((n + kTile - 1) / kTile);
  Temporary<Place> places_of(static_cast<std::size_t>(tiles));
  Place* const places = places_of.data();
  const std::uint32_t* const counts = part.counts;
  map(tiles, [=] __device__(std::int64_t t) { places[t] = {counts[t], 0}; });
  launch(scan_kernel<4>, 1, kScanThreads, places, tiles, all);
  launch(gather_kernel, static_cast<unsigned>((tiles * kWarp + kBlock - 1) / kBlock), kBlock, part, size, places,
         values, static_cast<std::int64_t>(most), found_indices, found_values);
}

void cut_at(const Source& from, Sign sign, std::uint32_t k, std::uint32_t target, std::uint32_t need, bool remembered,
            SelectState* state) {
  Temporary<unsigned> bins(2 * kBins);
  check(cudaMemsetAsync(bins.data(), 0, 2 * kBins * sizeof(unsigned), stream()), "clearing");
  // Each thread many values, since each block's bins are added to all at its end.
  const unsigned grid = blocks_for((static_cast<std::int64_t>(from.n) + 15) / 16, kBlock, 1);
  for (int round = 0; round < 3; ++round) {
    launch(digits_kernel, grid, kBlock, from, sign, round, state, bins.data());
    launch(choose_kernel, 1, kChooseThreads, bins.data(), round, Wanted{k, target, need, remembered}, lowest_key(sign),
           state);
  }
}

void cut_by_scattering(const Source& all, Sign sign, std::uint32_t k, SelectState* state) {
  const auto n = static_cast<std::int64_t>(all.n);
  Temporary<unsigned> bins(2 * kBins);
  Temporary<Counted> lengths(2);
  Temporary<Place> places(static_cast<std::size_t>(segments_of(n)));
  Temporary<float> first(all.n), second(all.n);
  check(cudaMemsetAsync(bins.data(), 0, 2 * kBins * sizeof(unsigned), stream()), "clearing");
  check(cudaMemsetAsync(lengths.data(), 0, 2 * sizeof(Counted), stream()), "clearing");
  const unsigned grid = blocks_for((n + 15) / 16, kBlock, 1);
  Source from = all;
  for (int round = 0; round < 3; ++round) {
    launch(digits_kernel, grid, kBlock, from, sign, round, state, bins.data());
    launch(choose_kernel, 1, kChooseThreads, bins.data(), round, Wanted{k, k, k, false}, lowest_key(sign), state);
    if (round == 2) break;
    const PrefixRule rule{{from, sign, state}, shift_of(round)};
    float* const next = round == 0 ? first.data() : second.data();
    Counted* const length = lengths.data() + round;
    count_taken(rule, n, places.data(), length);
    emit_taken(rule, n, places.data(), length, n, Write{from, nullptr, next});
    from = {next, nullptr, all.n, &length->taken};
  }
}

void take_cut(const Source& from, Sign sign, std::size_t most, SelectState* state, std::uint32_t* indices,
              float* values) {
  const auto n = static_cast<std::int64_t>(from.n);
  Temporary<Place> places(static_cast<std::size_t>(segments_of(n)));
  const CutRule rule{{from, sign, state}};
  count_taken(rule, n, places.data(), &state->chosen);
  emit_taken(rule, n, places.data(), &state->chosen, static_cast<std::int64_t>(most), Write{from, indices, values});
}

void bisect(const Source& from, Sign sign, std::uint32_t k, std::int32_t floor, SelectState* state) {
  const unsigned grid = blocks_for((static_cast<std::int64_t>(from.n) + 15) / 16, kBlock, 1);
  launch(bisect_kernel, 1, kWarp, state, sign, k, floor, true);
  for (int level = 0; level <= 20; level += kLevels) {
    launch(thresholds_kernel, grid, kBlock, from, sign, state);
    launch(bisect_kernel, 1, kWarp, state, sign, k, floor, false);
  }
}

std::size_t places(std::size_t n) {
  return static_cast<std::size_t>(segments_of(static_cast<std::int64_t>(n))) * sizeof(Place);
}

void count_above(const Source& from, Sign sign, const Above& above, std::byte* places, SelectState* state) {
  by_rule(from, sign, above, state, [&](auto rule) {
    count_taken(rule, static_cast<std::int64_t>(from.n), reinterpret_cast<Place*>(places), &state->chosen);
  });
}

void take_above(const Source& from, Sign sign, const Above& above, const std::byte* places, std::size_t most,
                SelectState* state, std::uint32_t* indices, float* values) {
  by_rule(from, sign, above, state, [&](auto rule) {
    emit_taken(rule, static_cast<std::int64_t>(from.n), reinterpret_cast<const Place*>(places), &state->chosen,
               static_cast<std::int64_t>(most), Write{from, indices, values});
  });
}

void set_stats(const ResidualStats& stats, SelectState* state) {
  map(1, [=] __device__(std::int64_t) { state->stats = stats; });
}

void keep_signs(float* values, std::size_t n, float magnitude) {
  map(static_cast<std::int64_t>(n),
      [=] __device__(std::int64_t i) { values[i] = values[i] > 0 ? magnitude : -magnitude; });
}

void largest_of_bins(const float* values, std::size_t n, std::size_t bin, std::int32_t* largest) {
  const std::size_t bins = (n + bin - 1) / bin;
  launch(largest_of_bins_kernel, static_cast<unsigned>((bins * kWarp + kBlock - 1) / kBlock), kBlock, values,
         static_cast<std::int64_t>(n), static_cast<std::int64_t>(bin), largest);
}

void sample(const float* values, std::size_t n, std::size_t size, std::uint64_t turn, float* sample) {
  const std::uint64_t all = n, of = size, stride = all / of;
  const auto now = static_cast<std::uint32_t>(turn);
  map(static_cast<std::int64_t>(size), [=] __device__(std::int64_t j) {
    const std::uint32_t bits = philox({static_cast<std::uint32_t>(j), now, 0, 0}, {0, 0})[0];
    sample[j] = values[static_cast<std::uint64_t>(j) * all / of + bits % stride];
  });
}

}  // namespace laconic::compress::cuda
