#pragma once
#include <cstddef>
#include <cstdint>

/// The loops of compress/codecs/group_quantiser.cc on host memory, for one super group; the first serves other codecs
/// too.
namespace laconic::compress::cpu {

/// Values of a super group, and numbers that lie beside each other when it is packed.
inline constexpr std::size_t kSuperGroup = 256, kGroupLanes = 8;
/// Random numbers for them. One serves four values with 16 bits each, from its bit 0, 8, 16 and 24 on: the lower half
/// of one value's bits is the upper half of another's.
inline constexpr std::size_t kSuperGroupDraws = kSuperGroup / 4;

/// Levels of b bits, one of them the sign: h = 2^(b-2) steps of 1, then h - 1 steps of 2.
struct GroupLevels {
  unsigned bits;
  float half, last, top;  ///< h, the last level, and what it is worth

  explicit GroupLevels(unsigned b)
      : bits(b),
        half(static_cast<float>(1u << (b - 2))),
        last(static_cast<float>((1u << (b - 1)) - 1)),
        top(2 * last - half) {}
};

/// Returns the largest magnitude as its bits, which order NaN and infinity above all numbers. 0 of no values.
std::uint32_t largest_magnitude(const float* x, std::size_t n);

/// Rounds n values at random. Writes a scale for each group, in 255ths of `scale`, and 256 numbers: signs and levels,
/// then zeros.
///   group : a power of two, at least 8.   scale : above 0, no value is larger.   random : kSuperGroupDraws of 32 bits
void quantise_super_group(const float* x, std::size_t n, std::size_t group, const GroupLevels& levels, float scale,
                          const std::uint32_t* random, std::uint8_t* scales, std::uint32_t* numbers);

/// The values of n numbers.
void dequantise_super_group(const std::uint32_t* numbers, std::size_t n, std::size_t group, const GroupLevels& levels,
                            float scale, const std::uint8_t* scales, float* x);

/// y += x.
void add_super_group(const float* x, std::size_t n, float* y);

/// 256 numbers in 8 lanes: number i lies in lane i mod 8, which has `bits` words of 32 bits, lowest bits first. Word w
/// of lane l is word 8 w + l.
void pack_lanes(const std::uint32_t* numbers, unsigned bits, std::byte* to);
void unpack_lanes(const std::byte* from, unsigned bits, std::uint32_t* numbers);

}  // namespace laconic::compress::cpu
