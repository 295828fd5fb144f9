#include "compress/cpu/unpack.h"
#include "compress/cuda/bytes.cuh"
#include "compress/cuda/codecs.h"
#include "compress/cuda/ordered_sum.cuh"
#include "compress/codecs/value_bits.h"
#include "core/cuda/launch.cuh"

namespace laconic::compress::cuda {
namespace {

constexpr unsigned kPacked = cpu::kBlock;  // numbers that are filled up to a byte together

/// Bytes of n numbers of `width` bits.
std::int64_t packed_bytes(std::int64_t n, unsigned width) {
  return static_cast<std::int64_t>(cpu::packed_bytes(static_cast<std::size_t>(n), width));
}

/// Byte b of `count` numbers of `width` bits in a row, lowest bits first.
template <class Number>
__device__ std::byte packed_byte(unsigned b, unsigned count, unsigned width, Number number) {
  unsigned byte = 0;
  for (unsigned j = 8 * b / width; j < count && j * width < 8 * b + 8; ++j) {
    const int at = static_cast<int>(j * width) - static_cast<int>(8 * b);
    byte |= at >= 0 ? number(j) << at : number(j) >> -at;
  }
  return static_cast<std::byte>(byte & 0xFF);
}

/// Number j of those in a row from `from`; no byte after its last bit is read.
__device__ unsigned packed_number(const std::byte* from, unsigned j, unsigned width) {
  const unsigned begin = j * width, end = begin + width;
  std::uint64_t bits = 0;
  for (unsigned b = begin / 8; b < (end + 7) / 8; ++b)
    bits |= static_cast<std::uint64_t>(from[b]) << 8 * (b - begin / 8);
  return static_cast<unsigned>(bits >> begin % 8 & ((std::uint64_t{1} << width) - 1));
}

__device__ unsigned bits_of(float x) { return __float_as_uint(x); }

/// Both ways of a format of 16 bits; convert also gets the place of the value. Four values at a time where they lie so
/// that a thread can move them at once.
template <class Convert>
void to_16_bits(const float* x, std::int64_t n, std::byte* to, Convert convert) {
  const std::int64_t fours = aligned(x, 16) && aligned(to, 8) ? n / 4 : 0;
  map(fours, [=] __device__(std::int64_t i) {
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    const unsigned low = convert(v.x, 4 * i) | static_cast<unsigned>(convert(v.y, 4 * i + 1)) << 16;
    const unsigned high = convert(v.z, 4 * i + 2) | static_cast<unsigned>(convert(v.w, 4 * i + 3)) << 16;
    reinterpret_cast<uint2*>(to)[i] = make_uint2(low, high);
  });
  map(n - 4 * fours, [=] __device__(std::int64_t j) {
    const std::int64_t i = 4 * fours + j;
    put_word<std::uint16_t>(to + 2 * i, convert(x[i], i));
  });
}
template <class Convert>
void from_16_bits(const std::byte* from, std::int64_t n, float* x, Convert convert) {
  const std::int64_t fours = aligned(x, 16) && aligned(from, 8) ? n / 4 : 0;
  map(fours, [=] __device__(std::int64_t i) {
    const uint2 v = reinterpret_cast<const uint2*>(from)[i];
    reinterpret_cast<float4*>(x)[i] = make_float4(
        convert(static_cast<std::uint16_t>(v.x), 4 * i), convert(static_cast<std::uint16_t>(v.x >> 16), 4 * i + 1),
        convert(static_cast<std::uint16_t>(v.y), 4 * i + 2), convert(static_cast<std::uint16_t>(v.y >> 16), 4 * i + 3));
  });
  map(n - 4 * fours, [=] __device__(std::int64_t j) {
    const std::int64_t i = 4 * fours + j;
    x[i] = convert(get_word<std::uint16_t>(from + 2 * i), i);
  });
}
constexpr std::int64_t kPiece = 8192;  // values whose largest magnitude a warp finds

/// A warp takes a piece of a bucket.
__global__ void __launch_bounds__(kBlock)
    largest_kernel(const float* x, std::int64_t n, std::int64_t bucket, std::int64_t pieces, unsigned* largest) {
  const std::int64_t task = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / 32;
  const std::int64_t b = task / pieces, end = n < (b + 1) * bucket ? n : (b + 1) * bucket;
  const std::int64_t begin = b * bucket + task % pieces * kPiece;
  if (begin >= end) return;  // the whole warp
  const std::int64_t stop = end < begin + kPiece ? end : begin + kPiece;
  unsigned most = 0;
  LACONIC_UNROLL(4)
  for (std::int64_t i = begin + threadIdx.x % 32; i < stop; i += 32) {
    const unsigned magnitude = bits_of(x[i]) & 0x7FFFFFFFu;
    most = magnitude > most ? magnitude : most;
  }
  most = warp_reduce(most, Max{});
  if (threadIdx.x % 32 == 0) atomicMax(largest + b, most);
}

/// The largest magnitude of every bucket, as its bits.
void find_largest(const float* x, std::int64_t n, std::int64_t bucket, unsigned* largest) {
  const std::int64_t buckets = (n + bucket - 1) / bucket, pieces = (bucket + kPiece - 1) / kPiece;
  check(cudaMemsetAsync(largest, 0, static_cast<std::size_t>(buckets) * sizeof(unsigned), stream()), "clearing");
  launch(largest_kernel, static_cast<unsigned>((32 * buckets * pieces + kBlock - 1) / kBlock), kBlock, x, n, bucket,
         pieces, largest);
}

constexpr auto kHalves = static_cast<std::int64_t>(kHalvesOfAnExponent);

}  // namespace

void to_fp16(const float* x, std::size_t count, std::byte* to) {
  const std::int64_t n = size(count), exponents = (n + kHalves - 1) / kHalves;
  Temporary<unsigned> largest_of(static_cast<std::size_t>(exponents));
  unsigned* const largest = largest_of.data();
  find_largest(x, n, kHalves, largest);
  map(exponents, [=] __device__(std::int64_t b) { to[2 * n + b] = static_cast<std::byte>(half_exponent(largest[b])); });
  to_16_bits(x, n, to, [=] __device__(float v, std::int64_t i) {
    const int exponent = half_exponent(largest[i / kHalves]);
    return fp16_of(exponent == 0 ? v : power_of_two(-exponent) * v);
  });
}
void from_fp16(const std::byte* from, std::size_t count, float* x) {
  const std::int64_t n = size(count);
  from_16_bits(from, n, x, [=] __device__(std::uint16_t h, std::int64_t i) {
    const auto exponent = static_cast<std::int8_t>(from[2 * n + i / kHalves]);
    return exponent == 0 ? float_of(h) : power_of_two(exponent) * float_of(h);
  });
}

void to_upper_bits(const float* x, std::size_t n, unsigned cut, bool rounds, std::byte* to) {
  if (rounds) return to_16_bits(x, size(n), to, [] __device__(float v, std::int64_t) { return bf16_of(bits_of(v)); });
  if (cut == 16)
    return to_16_bits(x, size(n), to,
                      [] __device__(float v, std::int64_t) { return static_cast<std::uint16_t>(bits_of(v) >> 16); });
  const unsigned width = 32 - cut;
  const std::int64_t whole = 16 * width, all = size(n);
  const Divisor by_whole(whole);
  map(packed_bytes(all, width), [=] __device__(std::int64_t i) {
    const auto [block_index, byte] = by_whole(i);
    const std::int64_t first = block_index * kPacked, left = all - first;
    const float* const block = x + first;
    to[i] = packed_byte(static_cast<unsigned>(byte), left < kPacked ? static_cast<unsigned>(left) : kPacked, width,
                        [=](unsigned j) { return bits_of(block[j]) >> cut; });
  });
}

void from_upper_bits(const std::byte* from, std::size_t n, unsigned cut, float* x) {
  if (cut == 16)
    return from_16_bits(from, size(n), x,
                        [] __device__(std::uint16_t h, std::int64_t) { return __uint_as_float(unsigned{h} << 16); });
  const unsigned width = 32 - cut;
  map(size(n), [=] __device__(std::int64_t i) {
    const unsigned number = packed_number(from + i / kPacked * (16 * width), static_cast<unsigned>(i % kPacked), width);
    x[i] = __uint_as_float(number << cut);
  });
}

// ------------------------------------------------------------------------------------------------------- one bit

namespace {

constexpr int kOneBitLanes = 16;  // sums beside each other, as on the CPU

/// A warp for each bucket: of its lanes the first half adds up what is not below zero, the others what is.
__global__ void __launch_bounds__(kBlock)
    onebit_kernel(const float* x, std::int64_t n, std::int64_t bucket, std::byte* to) {
  const std::int64_t b = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / 32;
  if (b * bucket >= n) return;  // the whole warp
  const int lane = threadIdx.x % 32, mine = lane % kOneBitLanes;
  const bool below = lane >= kOneBitLanes;
  const std::int64_t left = n - b * bucket, count = left < bucket ? left : bucket;
  x += b * bucket;
  to += b * (8 + bucket / 8);
  float sum = 0;
  unsigned of_them = 0;
  for (std::int64_t i = mine; i < count; i += kOneBitLanes) {
    const float v = x[i];
    if (below) {
      sum += v < 0 ? v : 0.0f;
      of_them += v < 0 ? 1u : 0u;
    } else {
      sum += v < 0 ? 0.0f : v;
    }
  }
  double all = 0;
  for (int l = 0; l < kOneBitLanes; ++l)
    all += static_cast<double>(__shfl_sync(kAllLanes, sum, (below ? kOneBitLanes : 0) + l));
  const unsigned are_below = warp_sum(of_them);
  const std::int64_t these = below ? are_below : count - are_below;
  const float mean = these > 0 ? static_cast<float>(all / static_cast<double>(these)) : 0.0f;
  if (mine == 0) put_word<unsigned>(to + (below ? 4 : 0), bits_of(one_nan(mean)));
  to += 8;
  for (std::int64_t i = 0; i < count; i += 32) {
    const bool there = i + lane < count;
    const unsigned signs = __ballot_sync(kAllLanes, there && x[i + lane] < 0);
    if (lane < 4 && i / 8 + lane < (count + 7) / 8) to[i / 8 + lane] = static_cast<std::byte>(signs >> 8 * lane & 0xFF);
  }
}

}  // namespace

void to_onebit(const float* x, std::size_t n, std::size_t bucket, std::byte* to) {
  const std::size_t buckets = (n + bucket - 1) / bucket;
  launch(onebit_kernel, static_cast<unsigned>((32 * buckets + kBlock - 1) / kBlock), kBlock, x, size(n), size(bucket),
         to);
}

void from_onebit(const std::byte* from, std::size_t n, std::size_t bucket_size, float* x) {
  const std::int64_t bucket = size(bucket_size);
  const std::int64_t bytes = 8 + bucket / 8;
  const Divisor by_bucket(bucket);
  map(size(n), [=] __device__(std::int64_t i) {
    const auto [b, j] = by_bucket(i);
    const std::byte* const begin = from + b * bytes;
    const bool below = static_cast<unsigned>(begin[8 + j / 8]) >> j % 8 & 1;
    x[i] = __uint_as_float(get_word<unsigned>(begin + (below ? 4 : 0)));
  });
}

// ---------------------------------------------------------------------------------------------------- stochastic

namespace {

constexpr float kLeastScale = 0x1p-100f;

/// How n values are cut into buckets, and those into blocks of numbers that are packed together.
struct Buckets {
  std::int64_t n, bucket, blocks;  // blocks: of a whole bucket
  std::int64_t whole_bytes;        // bytes of a whole bucket
  unsigned bits;

  __device__ std::int64_t size_of(std::int64_t b) const {
    const std::int64_t left = n - b * bucket;
    return left < bucket ? left : bucket;
  }
};
Buckets buckets_of(std::size_t n, std::size_t bucket, unsigned bits) {
  return {size(n), size(bucket), (size(bucket) + kPacked - 1) / kPacked, 4 + packed_bytes(size(bucket), bits), bits};
}

/// Sign and level of every value, 16 bits each. A warp takes 128 values, whose random numbers belong together.
__global__ void __launch_bounds__(kBlock)
    levels_kernel(const float* x, Buckets all, Draws draws, const float* scales, std::uint16_t* levels) {
  const std::int64_t block = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / 32;
  const std::int64_t b = block / all.blocks, within = block % all.blocks * kPacked;
  if (b * all.bucket + within >= all.n) return;
  const std::int64_t left = all.size_of(b) - within, first = b * all.bucket + within;
  const unsigned lane = threadIdx.x % 32;
  const float scale = scales[b];
  const auto numbers = draws.four(static_cast<std::uint32_t>(block) * 32 + lane);
  const int most = (1 << (all.bits - 1)) - 1;
  const float levels_per_one = static_cast<float>(most) / scale;
  for (unsigned w = 0; w < 4; ++w) {
    const std::int64_t j = 32 * w + lane;
    if (j >= left) continue;
    const std::uint32_t number = level_of(x[first + j], levels_per_one, most, all.bits, numbers[w]);
    levels[first + j] = static_cast<std::uint16_t>(scale > 0 ? number : 0);
  }
}

std::int64_t count_of(const Buckets& all) { return (all.n + all.bucket - 1) / all.bucket; }

/// The scale of every bucket.
void find_scales(const float* x, const Buckets& all, float clip, float* scales) {
  const std::int64_t buckets = count_of(all);
  Temporary<unsigned> largest_of(static_cast<std::size_t>(buckets));
  Temporary<double> moments_of(2);
  unsigned* const largest = largest_of.data();
  double* const moments = moments_of.data();
  find_largest(x, all.n, all.bucket, largest);
  const auto moment = [=] __device__(std::int64_t i, bool second) {
    const auto v = static_cast<double>(x[i]);
    return second ? v * v : v;
  };
  if (clip > 0) ordered_sums<2>(moment, all.n, moments);
  map(buckets, [=] __device__(std::int64_t b) {
    float scale = __uint_as_float(largest[b]);
    const bool finite = largest[b] < 0x7F800000u;
    if (clip > 0 && finite) {
      const auto count = static_cast<double>(all.n);
      const double mean = moments[0] / count, variance = moments[1] / count - mean * mean;
      const float most = clip * static_cast<float>(sqrt(variance > 0 ? variance : 0.0));
      if (most > 0 && most < scale) scale = most;
    }
    if (!finite) scale = __uint_as_float(0x7FC00000u);
    if (scale < kLeastScale) scale = 0;
    scales[b] = scale;
  });
}

}  // namespace

float stochastic_scale(const float* x, std::size_t n, float clip) {
  if (n == 0) return 0;
  Temporary<float> found(1);
  find_scales(x, buckets_of(n, n, 2), clip, found.data());
  float scale = 0;
  check(cudaMemcpyAsync(&scale, found.data(), sizeof scale, cudaMemcpyDeviceToHost, stream()), "reading a scale");
  check(cudaStreamSynchronize(stream()), "waiting for a scale");
  return scale;
}

void to_stochastic(const float* x, std::size_t n, std::size_t bucket, unsigned bits, float clip, float scale,
                   const Draws& draws, std::byte* to) {
  const Buckets all = buckets_of(n, bucket, bits);
  const std::int64_t buckets = count_of(all);
  Temporary<float> scale_of(static_cast<std::size_t>(buckets));
  Temporary<std::uint16_t> levels_of(n);
  float* const scales = scale_of.data();
  std::uint16_t* const levels = levels_of.data();
  if (scale == 0)
    find_scales(x, all, clip, scales);
  else
    map(buckets, [=] __device__(std::int64_t b) { scales[b] = scale; });
  map(buckets, [=] __device__(std::int64_t b) { put_word<unsigned>(to + b * all.whole_bytes, bits_of(scales[b])); });
  const std::int64_t warps = buckets * all.blocks;
  launch(levels_kernel, static_cast<unsigned>((32 * warps + kBlock - 1) / kBlock), kBlock, x, all, draws,
         static_cast<const float*>(scales), levels);
  const std::int64_t rest = all.n - (buckets - 1) * all.bucket,
                     bytes = (buckets - 1) * all.whole_bytes + 4 + packed_bytes(rest, bits);
  const Divisor by_bucket(all.whole_bytes), by_block(16 * bits);
  map(bytes, [=] __device__(std::int64_t i) {
    const auto [b, at] = by_bucket(i);
    if (at < 4) return;
    const auto [block_index, byte] = by_block(at - 4);
    const std::int64_t within = block_index * kPacked, left = all.size_of(b) - within;
    const std::uint16_t* const block = levels + b * all.bucket + within;
    to[i] = packed_byte(static_cast<unsigned>(byte), left < kPacked ? static_cast<unsigned>(left) : kPacked, bits,
                        [=](unsigned j) -> unsigned { return block[j]; });
  });
}

void from_stochastic(const std::byte* from, std::size_t n, std::size_t bucket, unsigned bits, float* x) {
  const Buckets all = buckets_of(n, bucket, bits);
  const auto levels = static_cast<float>((1 << (bits - 1)) - 1);
  const Divisor by_bucket(all.bucket);
  map(all.n, [=] __device__(std::int64_t i) {
    const auto [b, j] = by_bucket(i);
    const std::byte* const begin = from + b * all.whole_bytes;
    const float step = __uint_as_float(get_word<unsigned>(begin)) / levels;
    const unsigned number =
        packed_number(begin + 4 + j / kPacked * (16 * bits), static_cast<unsigned>(j % kPacked), bits);
    x[i] = value_of_level(number, step, bits);
  });
}

}  // namespace laconic::compress::cuda
