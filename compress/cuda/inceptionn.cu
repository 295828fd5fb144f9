#include "compress/cuda/bytes.cuh"
#include "compress/cuda/inceptionn.h"
#include "compress/cuda/ordered_sum.cuh"
#include "compress/codecs/value_bits.h"
#include "core/cuda/launch.cuh"

namespace laconic::compress::cuda {
namespace {

using namespace laconic::cuda;
using cpu::InceptionnRule;

constexpr unsigned kSign = 0x80000000u;
constexpr int kGroup = cpu::kGroup, kLongest = cpu::kLongestGroup;
constexpr std::int64_t kScaled = kSumChunk;  // values with one exponent

std::int64_t groups_of(std::size_t n) { return static_cast<std::int64_t>((n + kGroup - 1) / kGroup); }

__device__ unsigned payload_bytes(unsigned tags) {
  return __popc(tags) + __popc(tags & 0xAAAA) + __popc(tags & tags >> 1 & 0x5555);
}
__device__ unsigned bytes_of_tag(unsigned tag) { return tag == 3 ? 4 : tag; }

// ---------------------------------------------------------------------------------------------------------- encode

__device__ unsigned tag_of(const InceptionnRule& r, unsigned magnitude) {
  return (magnitude >= r.skip ? 1u : 0u) + (magnitude >= r.eight ? 1u : 0u) + (magnitude >= r.sixteen ? 1u : 0u);
}

/// The values of a group, 0 where there are none.
__device__ void load_group(const float* x, std::int64_t n, std::int64_t group, unsigned (&bits)[kGroup]) {
  const std::int64_t first = group * kGroup;
  if (first + kGroup <= n && aligned(x, 16)) {
    const float4 a = reinterpret_cast<const float4*>(x + first)[0], b = reinterpret_cast<const float4*>(x + first)[1];
    const float values[kGroup] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    for (int i = 0; i < kGroup; ++i) bits[i] = __float_as_uint(values[i]);
    return;
  }
  for (int i = 0; i < kGroup; ++i) bits[i] = first + i < n ? __float_as_uint(x[first + i]) : 0;
}

__device__ unsigned tags_of(const InceptionnRule& rule, const unsigned (&bits)[kGroup]) {
  unsigned tags = 0;
  for (int i = 0; i < kGroup; ++i) tags |= tag_of(rule, bits[i] & ~kSign) << 2 * i;
  return tags;
}

__device__ unsigned payload_of(const InceptionnRule& r, unsigned bits, unsigned tag) {
  if (tag == 3) return bits;
  const float scaled = __uint_as_float(bits & ~kSign) * (tag == 1 ? r.scale8 : r.scale16);
  const auto q = static_cast<unsigned>(static_cast<int>(r.truncate ? scaled : rintf(scaled)));
  return q | (bits & kSign) >> (32 - 8 * tag);
}

/// A thread takes a group, a block as many as it has threads.
__global__ void __launch_bounds__(kBlock)
    sizes_kernel(InceptionnRule rule, const float* x, std::int64_t n, std::int64_t groups, std::uint64_t* of_block) {
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  unsigned size = 0;
  if (group < groups) {
    unsigned bits[kGroup];
    load_group(x, n, group, bits);
    size = 2 + payload_bytes(tags_of(rule, bits));
  }
  size = block_sum(size);
  if (threadIdx.x == 0) of_block[blockIdx.x] = size;
}

constexpr int kOffsetThreads = 1024;

/// offsets[b] becomes the sum of all before b; found->bytes all of them, and the header. One block.
__global__ void __launch_bounds__(kOffsetThreads)
    offsets_kernel(std::uint64_t* offsets, std::int64_t count, std::uint64_t header, InceptionnFound* found) {
  std::uint64_t running = 0;
  for (std::int64_t base = 0; base < count; base += kOffsetThreads) {
    const std::int64_t i = base + threadIdx.x;
    std::uint64_t all = 0;
    const std::uint64_t before = block_before(i < count ? offsets[i] : std::uint64_t{0}, &all);
    if (i < count) offsets[i] = running + before;
    running += all;
  }
  if (threadIdx.x == 0) found->bytes = header + running;
}

/// As sizes_kernel. The block's groups are put together in shared memory, then go to their place side by side.
__global__ void __launch_bounds__(kBlock)
    write_kernel(InceptionnRule rule, const float* x, std::int64_t n, std::int64_t groups, const std::uint64_t* offsets,
                 std::int64_t second_half, std::byte* to) {
  __shared__ unsigned char staged[kBlock * kLongest];
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  unsigned bits[kGroup], tags = 0, size = 0;
  if (group < groups) {
    load_group(x, n, group, bits);
    tags = tags_of(rule, bits);
    size = 2 + payload_bytes(tags);
  }
  unsigned all = 0, at = block_before(size, &all);
  std::byte* const payload = to + (second_half > 0 ? 4 : 0);
  if (group < groups) {
    if (second_half > 0 && group == second_half)
      put_word<std::uint32_t>(to, static_cast<std::uint32_t>(offsets[blockIdx.x] + at));
    staged[at] = static_cast<unsigned char>(tags & 0xFF), staged[at + 1] = static_cast<unsigned char>(tags >> 8);
    at += 2;
    for (int i = 0; i < kGroup; ++i) {
      const unsigned tag = tags >> 2 * i & 3, bytes = bytes_of_tag(tag);
      if (tag == 0) continue;
      const unsigned word = payload_of(rule, bits[i], tag);
      for (unsigned b = 0; b < bytes; ++b) staged[at + b] = static_cast<unsigned char>(word >> 8 * b & 0xFF);
      at += bytes;
    }
  }
  __syncthreads();
  // Words at aligned places, single bytes before and after them.
  std::byte* const out = payload + offsets[blockIdx.x];
  unsigned head = static_cast<unsigned>((4 - reinterpret_cast<std::uintptr_t>(out) % 4) % 4);
  head = head < all ? head : all;
  const unsigned words = (all - head) / 4, tail = head + 4 * words;
  if (threadIdx.x < head) out[threadIdx.x] = static_cast<std::byte>(staged[threadIdx.x]);
  for (unsigned w = threadIdx.x; w < words; w += kBlock) {
    const unsigned from = head + 4 * w;
    reinterpret_cast<unsigned*>(out + head)[w] =
        staged[from] | staged[from + 1] << 8 | staged[from + 2] << 16 | static_cast<unsigned>(staged[from + 3]) << 24;
  }
  if (tail + threadIdx.x < all) out[tail + threadIdx.x] = static_cast<std::byte>(staged[tail + threadIdx.x]);
}

// ---------------------------------------------------------------------------------------------------------- decode
// Where a group begins is known only from the one before. So a payload is cut into segments, into each of which the
// groups before can reach by 0 to 33 bytes: what a segment does is a map of these 34 entries to how far it reaches into
// the next, and how many groups it holds. Maps are put together by hundreds; then every segment knows its entry.

constexpr int kSegmentBytes = 1024, kEntries = kLongest;  // ways to enter
constexpr int kSegments = 256;                       // segments that are put together
constexpr int kWays = 7;                             // segments that a block looks at: 7 x 34 threads

struct Payload {
  const std::byte* from;
  std::int64_t bytes, segments;
};

/// What a segment does of one entry: bytes into the next, groups.
struct Way {
  unsigned exit_and_groups;
  __device__ unsigned exit() const { return exit_and_groups & 0xFF; }
  __device__ unsigned groups() const { return exit_and_groups >> 8; }
};
__device__ Way way(unsigned exit, unsigned groups) { return {exit | groups << 8}; }

/// Room for some segments and what their groups may reach over, in words of 16 bytes.
constexpr int staged_words(int segments) { return (segments * kSegmentBytes + kLongest + 15) / 16; }

template <class Word>
__device__ void stage_by(const std::byte* from, std::int64_t left, uint4* to, int bytes, int thread, int threads) {
  constexpr int kBytes = static_cast<int>(sizeof(Word));
  const int whole = (left < bytes ? static_cast<int>(left) : bytes) / kBytes;
  LACONIC_UNROLL(4)
  for (int w = thread; w < whole; w += threads) reinterpret_cast<Word*>(to)[w] = reinterpret_cast<const Word*>(from)[w];
  for (int b = whole * kBytes + thread; b < bytes; b += threads)
    reinterpret_cast<unsigned char*>(to)[b] = b < left ? static_cast<unsigned char>(from[b]) : 0;
}
/// Bytes of the segments from `segment` on and what their groups may reach over, 0 after the end.
__device__ void stage(const Payload& p, std::int64_t segment, int segments, uint4* to, int thread, int threads) {
  const std::byte* const from = p.from + segment * kSegmentBytes;
  const std::int64_t left = p.bytes - segment * kSegmentBytes;
  const int bytes = 16 * staged_words(segments);
  if (aligned(from, 16))
    stage_by<uint4>(from, left, to, bytes, thread, threads);
  else if (aligned(from, 4))  // behind a header
    stage_by<unsigned>(from, left, to, bytes, thread, threads);
  else
    stage_by<unsigned char>(from, left, to, bytes, thread, threads);
}
__device__ int length_of(const Payload& p, std::int64_t segment) {
  const std::int64_t left = p.bytes - segment * kSegmentBytes;
  return left < kSegmentBytes ? static_cast<int>(left) : kSegmentBytes;
}
__device__ int next_group(const unsigned char* bytes, int at) {
  return at + 2 + static_cast<int>(payload_bytes(bytes[at] | static_cast<unsigned>(bytes[at + 1]) << 8));
}

__global__ void __launch_bounds__(kBlock) ways_kernel(Payload p, Way* ways) {
  __shared__ uint4 staged[staged_words(kWays)];
  const auto* const bytes = reinterpret_cast<const unsigned char*>(staged);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWays;
  stage(p, first, kWays, staged, threadIdx.x, kBlock);
  __syncthreads();
  const int mine = threadIdx.x / kEntries, entry = threadIdx.x % kEntries;
  if (mine >= kWays || first + mine >= p.segments) return;
  const int length = length_of(p, first + mine);
  int at = entry;
  unsigned groups = 0;
  for (; at < length; ++groups) at = next_group(bytes + mine * kSegmentBytes, at);
  ways[(first + mine) * kEntries + entry] = way(static_cast<unsigned>(at - length), groups);
}

/// Where a segment, or many, is entered, and the group there.
struct Entry {
  std::uint64_t group;
  unsigned at, unused;
};

/// What many segments do.
struct LongWay {
  std::uint64_t groups;
  unsigned exit, unused;
};

__device__ int stage_ways(const Payload& p, std::int64_t part, const Way* ways, Way* staged) {
  const std::int64_t first = part * kSegments, left = p.segments - first;
  const int here = left < kSegments ? static_cast<int>(left) : kSegments;
  for (int i = threadIdx.x; i < here * kEntries; i += kBlock) staged[i] = ways[first * kEntries + i];
  __syncthreads();
  return here;
}

__global__ void __launch_bounds__(kBlock) long_ways_kernel(Payload p, const Way* ways, LongWay* long_ways) {
  __shared__ Way staged[kSegments * kEntries];
  const int here = stage_ways(p, blockIdx.x, ways, staged);
  if (threadIdx.x >= kEntries) return;
  LongWay all{0, threadIdx.x, 0};
  for (int s = 0; s < here; ++s) {
    // Beyond the end of a short last segment there is no way on.
    const Way w = all.exit < kEntries ? staged[s * kEntries + static_cast<int>(all.exit)] : way(kEntries, 0);
    all.exit = w.exit(), all.groups += w.groups();
  }
  long_ways[static_cast<std::int64_t>(blockIdx.x) * kEntries + threadIdx.x] = all;
}

constexpr int kStagedParts = 64;

/// The entries of the parts, one after the other, and whether all ends where it has to. One block.
__global__ void __launch_bounds__(kBlock) parts_kernel(const LongWay* long_ways, std::int64_t parts,
                                                       std::uint64_t groups, Entry* entries, InceptionnFound* found) {
  __shared__ LongWay staged[kStagedParts * kEntries];
  Entry now{0, 0, 0};
  for (std::int64_t first = 0; first < parts; first += kStagedParts) {
    const int here = parts - first < kStagedParts ? static_cast<int>(parts - first) : kStagedParts;
    __syncthreads();  // the round before has been read
    for (int i = threadIdx.x; i < here * kEntries; i += kBlock) staged[i] = long_ways[first * kEntries + i];
    __syncthreads();
    if (threadIdx.x > 0) continue;
    for (int i = 0; i < here; ++i) {
      entries[first + i] = now;
      const LongWay w = now.at < kEntries ? staged[i * kEntries + static_cast<int>(now.at)] : LongWay{0, kEntries, 0};
      now.group += w.groups, now.at = w.exit;
    }
  }
  if (threadIdx.x == 0 && (now.at != 0 || now.group != groups)) found->wrong = 1;
}

__global__ void __launch_bounds__(kBlock)
    entries_kernel(Payload p, const Way* ways, const Entry* of_part, Entry* entries) {
  __shared__ Way staged[kSegments * kEntries];
  const int here = stage_ways(p, blockIdx.x, ways, staged);
  if (threadIdx.x > 0) return;
  Entry now = of_part[blockIdx.x];
  for (int s = 0; s < here; ++s) {
    entries[static_cast<std::int64_t>(blockIdx.x) * kSegments + s] = now;
    const Way w = now.at < kEntries ? staged[s * kEntries + static_cast<int>(now.at)] : way(kEntries, 0);
    now.group += w.groups(), now.at = w.exit();
  }
}

/// The value that a payload's bits say.
__device__ float value_of(const InceptionnRule& r, unsigned tag, unsigned bits) {
  if (tag == 0) return 0.0f;
  if (tag == 3) return __uint_as_float(bits);
  // The sign is where it belongs; what comes after it is exact as an integer and as a float.
  bits <<= tag == 1 ? 24 : 16;
  const float step = tag == 1 ? 0x1p-24f / r.scale8 : 0x1p-16f / r.scale16;
  const float value = static_cast<float>(static_cast<int>(bits & ~kSign)) * step;
  return __uint_as_float(__float_as_uint(value) | (bits & kSign));
}

constexpr int kDecodeWarps = 4;

/// A warp takes a segment: its first lane finds the groups, then each lane decodes some.
__global__ void __launch_bounds__(kDecodeWarps* kWarp)
    decode_kernel(InceptionnRule rule, Payload p, const Entry* entries, std::int64_t n, std::int64_t groups,
                  std::int64_t second_half, const std::byte* header, const float* addend, float* x,
                  InceptionnFound* found) {
  __shared__ uint4 staged[kDecodeWarps][staged_words(1)];
  __shared__ unsigned short places[kDecodeWarps][kSegmentBytes / 2];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * kDecodeWarps + warp;
  if (segment >= p.segments) return;  // the whole warp
  const auto* const bytes = reinterpret_cast<const unsigned char*>(staged[warp]);
  stage(p, segment, 1, staged[warp], lane, kWarp);
  __syncwarp();
  const Entry entry = entries[segment];
  const int length = length_of(p, segment);
  int count = 0;
  if (lane == 0)
    for (int at = static_cast<int>(entry.at); at < length; at = next_group(bytes, at))
      places[warp][count++] = static_cast<unsigned short>(at);
  __syncwarp();
  count = __shfl_sync(kAllLanes, count, 0);
  for (int g = lane; g < count; g += kWarp) {
    const auto group = static_cast<std::int64_t>(entry.group) + g;
    if (group >= groups) break;  // parts_kernel has told
    const int place = places[warp][g];
    if (second_half > 0 && group == second_half &&
        static_cast<std::int64_t>(get_word<std::uint32_t>(header)) != segment * kSegmentBytes + place)
      found->wrong = 1;
    const unsigned tags = bytes[place] | static_cast<unsigned>(bytes[place + 1]) << 8;
    const std::int64_t first = group * kGroup, left = n - first;
    if (left < kGroup && tags >> 2 * left != 0) found->wrong = 1;
    int at = place + 2;
    float values[kGroup];
    for (int i = 0; i < kGroup; ++i) {
      const unsigned tag = tags >> 2 * i & 3, size = bytes_of_tag(tag);
      unsigned bits = 0;
      for (unsigned b = 0; b < size; ++b) bits |= static_cast<unsigned>(bytes[at + static_cast<int>(b)]) << 8 * b;
      at += static_cast<int>(size);
      values[i] = value_of(rule, tag, bits);
    }
    if (left >= kGroup && aligned(x, 16) && (!addend || aligned(addend, 16))) {
      for (int i = 0; i < kGroup; i += 4) {
        float4 y = make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
        if (addend) {
          const float4 a = *reinterpret_cast<const float4*>(addend + first + i);
          y = make_float4(a.x + y.x, a.y + y.y, a.z + y.z, a.w + y.w);
        }
        *reinterpret_cast<float4*>(x + first + i) = y;
      }
    } else {
      for (int i = 0; i < kGroup && i < left; ++i) x[first + i] = addend ? addend[first + i] + values[i] : values[i];
    }
  }
}

unsigned blocks(std::int64_t n, std::int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

}  // namespace

void encode_inceptionn(const InceptionnRule& rule, const float* x, std::size_t size, std::size_t h, std::byte* to,
                       InceptionnFound* found) {
  const auto n = static_cast<std::int64_t>(size), groups = groups_of(size);
  const unsigned grid = blocks(groups, kBlock);
  Temporary<std::uint64_t> offsets(grid);
  launch(sizes_kernel, grid, kBlock, rule, x, n, groups, offsets.data());
  launch(offsets_kernel, 1, kOffsetThreads, offsets.data(), static_cast<std::int64_t>(grid), h > 0 ? 4u : 0u, found);
  launch(write_kernel, grid, kBlock, rule, x, n, groups, offsets.data(), static_cast<std::int64_t>(h / kGroup), to);
}

void decode_inceptionn(const InceptionnRule& rule, const std::byte* message, std::size_t bytes, std::size_t size,
                       std::size_t h, const float* addend, float* x, InceptionnFound* found) {
  const std::size_t header = h > 0 ? 4 : 0;
  const auto n = static_cast<std::int64_t>(size), groups = groups_of(size);
  const auto length = static_cast<std::int64_t>(bytes - header);
  const Payload p{message + header, length, (length + kSegmentBytes - 1) / kSegmentBytes};
  const std::int64_t parts = (p.segments + kSegments - 1) / kSegments;
  Temporary<Way> ways(static_cast<std::size_t>(p.segments) * kEntries);
  Temporary<LongWay> long_ways(static_cast<std::size_t>(parts) * kEntries);
  Temporary<Entry> of_part(static_cast<std::size_t>(parts)), entries(static_cast<std::size_t>(p.segments));
  launch(ways_kernel, blocks(p.segments, kWays), kBlock, p, ways.data());
  launch(long_ways_kernel, static_cast<unsigned>(parts), kBlock, p, ways.data(), long_ways.data());
  launch(parts_kernel, 1, kBlock, long_ways.data(), parts, static_cast<std::uint64_t>(groups), of_part.data(), found);
  launch(entries_kernel, static_cast<unsigned>(parts), kBlock, p, ways.data(), of_part.data(), entries.data());
  launch(decode_kernel, blocks(p.segments, kDecodeWarps), kDecodeWarps * kWarp, rule, p, entries.data(), n, groups,
         static_cast<std::int64_t>(h / kGroup), message, addend, x, found);
}

void scale_by_means(const float* x, std::size_t size, std::int8_t* exponents, float* y) {
  const auto n = static_cast<std::int64_t>(size), chunks = (n + kScaled - 1) / kScaled;
  Temporary<float> sum_of(static_cast<std::size_t>(chunks));
  float* const sums = sum_of.data();
  chunk_sums<1>([=] __device__(std::int64_t i, bool) { return fabsf(x[i]); }, n, sums);
  map(chunks, [=] __device__(std::int64_t c) {
    const std::int64_t left = n - c * kScaled;
    exponents[c] =
        static_cast<std::int8_t>(exponent_for_mean(sums[c], static_cast<std::size_t>(left < kScaled ? left : kScaled)));
  });
  map(n, [=] __device__(std::int64_t i) {
    const int exponent = exponents[i / kScaled];
    y[i] = exponent == 0 ? x[i] : power_of_two(-exponent) * x[i];
  });
}

void scale_back(const std::int8_t* exponents, std::size_t n, float* x) {
  map(static_cast<std::int64_t>(n), [=] __device__(std::int64_t i) {
    const int exponent = exponents[i / kScaled];
    if (exponent != 0) x[i] = power_of_two(exponent) * x[i];
  });
}

}  // namespace laconic::compress::cuda
