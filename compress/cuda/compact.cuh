#pragma once
#include "compress/cuda/select.h"
#include "compress/select/selection.h"
#include "core/cuda/launch.cuh"

/// Ordered compaction: what of n elements a rule takes, one behind the other in the order of their indices. Three
/// launches and two reads: count by segments, scan the counts, write.
namespace laconic::compress::cuda {

using namespace laconic::cuda;

constexpr int kSegmentRows = 32;
constexpr std::int64_t kSegment = kSegmentRows * kWarp;  // elements of one warp

/// How many elements come before one; ties are counted apart, because only the first of them may be taken.
using Place = Counted;
__device__ inline Place operator+(Place a, Place b) { return {a.taken + b.taken, a.ties + b.ties}; }
__device__ inline Place operator-(Place a, Place b) { return {a.taken - b.taken, a.ties - b.ties}; }
__device__ inline Place shuffle_up(Place p, unsigned by) {
  return {__shfl_up_sync(kAllLanes, p.taken, by), __shfl_up_sync(kAllLanes, p.ties, by)};
}
enum class Taken : int { no, yes, tie };

/// The masks of a lane's rows: bit r says of element r 32 + lane of the segment.
struct Rows {
  unsigned taken = 0, ties = 0;
};
template <class Rule>
__device__ Rows rows_of(const Rule& rule, std::int64_t first, std::int64_t n) {
  Rows rows;
  LACONIC_UNROLL(8)
  for (int r = 0; r < kSegmentRows; ++r) {
    const std::int64_t i = first + r * kWarp + threadIdx.x % kWarp;
    const Taken taken = i < n ? rule(i) : Taken::no;
    rows.taken |= (taken == Taken::yes ? 1u : 0u) << r;
    rows.ties |= (taken == Taken::tie ? 1u : 0u) << r;
  }
  return rows;
}

/// A rule says Taken rule(i), and int64 rule.size(), which may be less than was launched for. Before, rule.begin()
/// reads what is the same for all i.
template <class Rule>
__global__ void __launch_bounds__(kBlock) count_kernel(Rule rule, std::int64_t segments, Place* places) {
  const std::int64_t segment = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kWarp;
  if (segment >= segments) return;  // the whole warp
  rule.begin();
  const std::int64_t first = segment * kSegment, n = rule.size();
  Place sum{0, 0};
  if (first < n) {
    const Rows rows = rows_of(rule, first, n);
    const unsigned both = warp_sum(static_cast<unsigned>(__popc(rows.taken)) << 16 | __popc(rows.ties));
    sum = {both >> 16, both & 0xFFFF};
  }
  if (threadIdx.x % kWarp == 0) places[segment] = sum;
}

constexpr int kScanThreads = 1024;

/// places[i] becomes *carry plus all before i, *carry all. One block, whose threads take kScanEach neighbours at a
/// time.
template <int kScanEach>
__global__ void __launch_bounds__(kScanThreads) scan_kernel(Place* places, std::int64_t count, Place* carry) {
  Place running = *carry;
  for (std::int64_t base = 0; base < count; base += kScanThreads * kScanEach) {
    const std::int64_t first = base + static_cast<std::int64_t>(threadIdx.x) * kScanEach;
    Place mine[kScanEach], sum{0, 0};
    for (int i = 0; i < kScanEach; ++i) {
      mine[i] = first + i < count ? places[first + i] : Place{0, 0};
      sum = sum + mine[i];
    }
    Place all{0, 0}, before = running + block_before(sum, &all);
    for (int i = 0; i < kScanEach; ++i) {
      if (first + i < count) places[first + i] = before;
      before = before + mine[i];
    }
    running = running + all;
  }
  __syncthreads();  // all have read what was carried
  if (threadIdx.x == 0) *carry = running;
}

/// emit(i, position) for what is taken: of ties the first rule.ties(). At most `most` positions.
template <class Rule, class Emit>
__global__ void __launch_bounds__(kBlock)
    emit_kernel(Rule rule, std::int64_t segments, const Place* places, const Place* all, std::int64_t most, Emit emit) {
  const std::int64_t segment = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kWarp;
  if (segment >= segments) return;  // the whole warp
  const std::int64_t first = segment * kSegment, n = rule.size();
  Place at = places[segment];
  const Place next = segment + 1 < segments ? places[segment + 1] : *all;
  const unsigned ties = rule.ties();
  if (at.taken == next.taken && (at.ties == next.ties || at.ties >= ties)) return;  // nothing: not read again
  rule.begin();
  const Rows rows = rows_of(rule, first, n);
  const unsigned below = (1u << threadIdx.x % kWarp) - 1;
  for (int r = 0; r < kSegmentRows; ++r) {
    const bool is_taken = rows.taken >> r & 1, is_tie = rows.ties >> r & 1;
    const unsigned taken = __ballot_sync(kAllLanes, is_taken), tied = __ballot_sync(kAllLanes, is_tie);
    const unsigned ties_before = at.ties + __popc(tied & below);
    const std::int64_t position =
        static_cast<std::int64_t>(at.taken) + __popc(taken & below) + (ties_before < ties ? ties_before : ties);
    if ((is_taken || (is_tie && ties_before < ties)) && position < most)
      emit(first + r * kWarp + threadIdx.x % kWarp, position);
    at.taken += __popc(taken), at.ties += __popc(tied);
  }
}

inline std::int64_t segments_of(std::int64_t n) { return (n + kSegment - 1) / kSegment; }
inline unsigned segments_grid(std::int64_t n) {
  return static_cast<unsigned>((segments_of(n) * kWarp + kBlock - 1) / kBlock);
}
/// places (segments_of(n) of them) and *all, which is zero before: how many of n are taken, and how many ties there
/// are.
template <class Rule>
void count_taken(Rule rule, std::int64_t n, Place* places, Place* all) {
  launch(count_kernel<Rule>, segments_grid(n), kBlock, rule, segments_of(n), places);
  launch(scan_kernel<4>, 1, kScanThreads, places, segments_of(n), all);
}
/// After count_taken.
template <class Rule, class Emit>
void emit_taken(Rule rule, std::int64_t n, const Place* places, const Place* all, std::int64_t most, Emit emit) {
  launch(emit_kernel<Rule, Emit>, segments_grid(n), kBlock, rule, segments_of(n), places, all, most, emit);
}

__device__ inline std::int64_t size_of(const Source& from) {
  const auto n = static_cast<std::int64_t>(from.n);
  return from.count && *from.count < n ? *from.count : n;
}

/// Where an element of a list goes.
struct Write {
  Source from;
  std::uint32_t* indices;  // null: only values go
  float* values;
  __device__ void operator()(std::int64_t i, std::int64_t position) const {
    if (indices) indices[position] = from.indices ? from.indices[i] : static_cast<std::uint32_t>(i);
    values[position] = from.values[i];
  }
};

/// What rules about a list have in common: no ties, unless one says so.
struct ListRule {
  Source from;
  Sign sign;
  const SelectState* state;
  __device__ void begin() {}
  __device__ std::int64_t size() const { return size_of(from); }
  __device__ unsigned ties() const { return 0; }
};

struct CutRule : ListRule {
  std::int32_t cut = 0;
  __device__ void begin() { cut = state->cut.key; }
  __device__ unsigned ties() const { return state->cut.equal; }
  __device__ Taken operator()(std::int64_t i) const {
    const std::int32_t key = key_of(from.values[i], sign);
    return key > cut ? Taken::yes : key == cut ? Taken::tie : Taken::no;
  }
};

/// What has the digits of the cut so far, those above `shift`.
struct PrefixRule : ListRule {
  int shift;
  std::int32_t digits = 0;
  __device__ void begin() { digits = state->cut.key >> shift; }
  __device__ Taken operator()(std::int64_t i) const {
    const std::int32_t key = key_of(from.values[i], sign);
    return key >= lowest_key(sign) && key >> shift == digits ? Taken::yes : Taken::no;
  }
};

struct AboveRule : ListRule {
  Above above;
  std::int32_t least = 0;
  bool none = false;
  __device__ void begin() {
    least = above.key;
    if (!above.bisected) return;
    const float threshold = state->bisection.with_enough;
    none = threshold < 0;
    if (!none) least = key_above(threshold, sign);
  }
  __device__ Taken operator()(std::int64_t i) const {
    return !none && key_of(from.values[i], sign) >= least ? Taken::yes : Taken::no;
  }
};
/// With what came last each bin takes what reaches its largest. Places have 32 bits: 64-bit divisions take longer.
struct BinRule : ListRule {
  const float* latest;
  const std::int32_t* largest;
  std::uint32_t bin;
  __device__ Taken operator()(std::int64_t i) const {
    const std::int32_t key = key_of(from.values[i] + latest[i], Sign::any);
    return key >= largest[static_cast<std::uint32_t>(i) / bin] ? Taken::yes : Taken::no;
  }
};
/// f(rule) for the one that is meant.
template <class F>
void by_rule(const Source& from, Sign sign, const Above& above, SelectState* state, F f) {
  const ListRule list{from, sign, state};
  if (above.latest)
    f(BinRule{list, above.latest, above.largest, static_cast<std::uint32_t>(std::min(above.bin, from.n))});
  else
    f(AboveRule{list, above});
}

}  // namespace laconic::compress::cuda
