#include "compress/cpu/groups.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/cpu/simd.h"

namespace laconic::compress::cpu {
namespace {

constexpr float kScales = 255;
constexpr std::size_t kRows = kSuperGroup / kGroupLanes;

/// The largest magnitude of n values, n a multiple of 8.
LACONIC_INLINE std::uint32_t largest_magnitude_of(const float* x, std::size_t n) {
  std::uint32_t lanes[kGroupLanes] = {};
  for (std::size_t i = 0; i < n; i += kGroupLanes)
    for (std::size_t l = 0; l < kGroupLanes; ++l) {
      std::uint32_t bits;
      std::memcpy(&bits, x + i + l, sizeof bits);
      lanes[l] = std::max(lanes[l], bits & 0x7FFFFFFF);
    }
  return *std::max_element(lanes, lanes + kGroupLanes);
}

/// The smallest number of 255ths that is no less.
LACONIC_INLINE std::uint8_t scale_code(float largest, float scale) {
  const float exact = largest * (kScales / scale);
  const auto below = static_cast<int>(exact);
  return static_cast<std::uint8_t>(std::min(below + (static_cast<float>(below) < exact ? 1 : 0), 255));
}

}  // namespace

LACONIC_MULTIVERSION std::uint32_t largest_magnitude(const float* x, std::size_t n) {
  const std::size_t whole = n / kGroupLanes * kGroupLanes;
  std::uint32_t largest = largest_magnitude_of(x, whole);
  for (std::size_t i = whole; i < n; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF);
  return largest;
}

LACONIC_MULTIVERSION void quantise_super_group(const float* LACONIC_RESTRICT x, std::size_t n, std::size_t group,
                                               const GroupLevels& levels, float scale,
                                               const std::uint32_t* LACONIC_RESTRICT random,
                                               std::uint8_t* LACONIC_RESTRICT scales,
                                               std::uint32_t* LACONIC_RESTRICT numbers) {
  float values[kSuperGroup], draws[kSuperGroup];
  if (n < kSuperGroup) {
    std::memset(values, 0, sizeof values);
    std::memcpy(values, x, n * sizeof *x);
    x = values;
  }
  for (std::size_t i = 0; i < kSuperGroupDraws; ++i)
    for (unsigned q = 0; q < 4; ++q) {
      const auto drawn = static_cast<std::int32_t>(std::rotr(random[i], static_cast<int>(8 * q)) & 0xFFFF);
      draws[q * kSuperGroupDraws + i] = (static_cast<float>(drawn) + 0.5f) * 0x1p-16f;
    }
  const float half = levels.half, last = levels.last;
  const unsigned to_sign = 32 - levels.bits;
  for (std::size_t first = 0; first < kSuperGroup; first += group) {
    const std::uint8_t code = scale_code(std::bit_cast<float>(largest_magnitude_of(x + first, group)), scale);
    if (first < n) scales[first / group] = code;
    const float per_one = code > 0 ? levels.top / (static_cast<float>(code) * (scale / kScales)) : 0;
    for (std::size_t i = first; i < first + group; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x[i]);
      const float v = std::bit_cast<float>(bits & 0x7FFFFFFF) * per_one, slow = 0.5f * (v + half);
      const float drawn = (v < slow ? v : slow) + draws[i];
      const auto level = static_cast<std::uint32_t>(static_cast<std::int32_t>(drawn < last ? drawn : last));
      numbers[i] = level | (bits & 0x80000000u) >> to_sign;
    }
  }
}

LACONIC_MULTIVERSION void dequantise_super_group(const std::uint32_t* LACONIC_RESTRICT numbers, std::size_t n,
                                                 std::size_t group, const GroupLevels& levels, float scale,
                                                 const std::uint8_t* LACONIC_RESTRICT scales,
                                                 float* LACONIC_RESTRICT x) {
  const auto half = static_cast<std::int32_t>(levels.half);
  const std::uint32_t mask = (1u << (levels.bits - 1)) - 1;
  const unsigned to_sign = 32 - levels.bits;
  for (std::size_t first = 0; first < n; first += group) {
    const float step = static_cast<float>(scales[first / group]) * (scale / kScales) / levels.top;
    const std::size_t end = std::min(n, first + group);
    for (std::size_t i = first; i < end; ++i) {
      const auto level = static_cast<std::int32_t>(numbers[i] & mask);
      const float v = static_cast<float>(std::max(level, 2 * level - half)) * step;
      std::uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      bits |= numbers[i] << to_sign & 0x80000000u;
      std::memcpy(x + i, &bits, sizeof bits);
    }
  }
}

LACONIC_MULTIVERSION void add_super_group(const float* LACONIC_RESTRICT x, std::size_t n, float* LACONIC_RESTRICT y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] + y[i];
}

LACONIC_MULTIVERSION void pack_lanes(const std::uint32_t* LACONIC_RESTRICT numbers, unsigned bits, std::byte* to) {
  std::uint32_t words[kSuperGroup];
  std::memset(words, 0, kSuperGroup / 8 * bits);
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned shift = row * bits % 32;
    std::uint32_t* const word = words + row * bits / 32 * kGroupLanes;
    const std::uint32_t* const from = numbers + row * kGroupLanes;
    for (std::size_t l = 0; l < kGroupLanes; ++l) word[l] |= from[l] << shift;
    if (shift + bits > 32)
      for (std::size_t l = 0; l < kGroupLanes; ++l) word[kGroupLanes + l] |= from[l] >> (32 - shift);
  }
  std::memcpy(to, words, kSuperGroup / 8 * bits);
}

LACONIC_MULTIVERSION void unpack_lanes(const std::byte* from, unsigned bits, std::uint32_t* LACONIC_RESTRICT numbers) {
  std::uint32_t words[kSuperGroup];
  std::memcpy(words, from, kSuperGroup / 8 * bits);
  const std::uint32_t mask = (1u << bits) - 1;
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned shift = row * bits % 32;
    const std::uint32_t* const word = words + row * bits / 32 * kGroupLanes;
    std::uint32_t* const to = numbers + row * kGroupLanes;
    if (shift + bits > 32)
      for (std::size_t l = 0; l < kGroupLanes; ++l)
        to[l] = (word[l] >> shift | word[kGroupLanes + l] << (32 - shift)) & mask;
    else
      for (std::size_t l = 0; l < kGroupLanes; ++l) to[l] = word[l] >> shift & mask;
  }
}

}  // namespace laconic::compress::cpu
