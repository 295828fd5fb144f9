#include "compress/inceptionn/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compress/cpu/isa.h"

namespace laconic::compress::cpu {
namespace {

constexpr std::size_t kPair = 2 * kGroup;
constexpr std::size_t kMargin = 4;  // bytes that the portable decoder reads past a group

constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint8_t kBytes[4] = {0, 1, 2, 4};  // bytes of a value, by tag

std::size_t payload_bytes(std::uint32_t tags) {
  return static_cast<std::size_t>(std::popcount(tags) + std::popcount(tags & 0xAAAA) +
                                  std::popcount(tags & tags >> 1 & 0x5555));
}

std::uint32_t tags_at(const std::byte* p) {
  std::uint16_t tags;
  std::memcpy(&tags, p, sizeof tags);
  return tags;
}

/// Without branches on the values: gradients would be mispredicted at every third.
template <bool kTruncate, bool kKeep, bool kScale>
std::byte* encode_group(const InceptionnRule& r, const float* x, std::byte* to, float* kept, float by) {
  std::uint32_t tags = 0;
  std::byte* payload = to + 2;
  const float scales[4] = {0, r.scale8, r.scale16, 0};
  const float steps[4] = {0, 1 / r.scale8, 1 / r.scale16, 0};
  for (std::size_t i = 0; i < kGroup; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(kScale ? x[i] * by : x[i]), magnitude = bits & ~kSign;
    const unsigned tag =
        unsigned{magnitude >= r.skip} + unsigned{magnitude >= r.eight} + unsigned{magnitude >= r.sixteen};
    const std::uint32_t whole = 0 - std::uint32_t{tag == 3};
    const float scaled = std::bit_cast<float>(magnitude & ~whole) * scales[tag];
    const auto q = static_cast<std::uint32_t>(kTruncate ? static_cast<long>(scaled) : std::lrintf(scaled));
    const std::uint32_t word = (q | (bits & kSign) >> ((32 - 8 * tag) & 31)) & ~whole;
    const std::uint32_t out = word | (bits & whole);
    std::memcpy(payload, &out, sizeof out);
    payload += kBytes[tag];
    tags |= tag << 2 * i;
    if constexpr (kKeep) {
      const std::uint32_t value = std::bit_cast<std::uint32_t>(static_cast<float>(q) * steps[tag]) | (bits & kSign);
      const float read = std::bit_cast<float>(tag == 3 ? bits : tag == 0 ? 0 : value);
      kept[i] = kScale ? read * (1 / by) : read;
    }
  }
  const auto low = static_cast<std::uint16_t>(tags);
  std::memcpy(to, &low, sizeof low);
  return payload;
}

/// Reads up to kMargin bytes after the group.
const std::byte* decode_group(const InceptionnRule& r, const std::byte* from, const float* addend, float* x, float by) {
  const std::uint32_t tags = tags_at(from);
  const std::byte* payload = from + 2;
  constexpr std::uint32_t kThere[4] = {0, ~0u, ~0u, ~0u};
  constexpr unsigned kShift[4] = {0, 24, 16, 0};
  const float steps[4] = {0, 0x1p-24f / r.scale8, 0x1p-16f / r.scale16, 0};
  for (std::size_t i = 0; i < kGroup; ++i) {
    const unsigned tag = tags >> 2 * i & 3;
    std::uint32_t bits;
    std::memcpy(&bits, payload, sizeof bits);
    payload += kBytes[tag];
    // The sign is where it belongs; what comes after it is exact as an integer and as a float.
    bits = bits << kShift[tag] & kThere[tag];
    const float value = static_cast<float>(static_cast<std::int32_t>(bits & ~kSign)) * steps[tag];
    const std::uint32_t coded = std::bit_cast<std::uint32_t>(value) | (bits & kSign);
    float y = std::bit_cast<float>(tag == 3 ? bits : coded);
    if (by != 1) y *= by;
    x[i] = addend ? addend[i] + y : y;
  }
  return payload;
}

/// What is left at the end of a message: every length is checked, and nothing at or after `end` is read.
bool decode_rest(const InceptionnRule& rule, InceptionnStream& s) {
  while (s.n > 0) {
    const auto left = static_cast<std::size_t>(s.end - s.from);
    if (left < 2) return false;
    const std::uint32_t tags = tags_at(s.from);
    const std::size_t bytes = 2 + payload_bytes(tags), count = std::min(kGroup, s.n);
    if (left < bytes || (count < kGroup && tags >> 2 * count != 0)) return false;
    std::byte group[kLongestGroup + kMargin] = {};
    std::memcpy(group, s.from, bytes);
    float values[kGroup] = {}, sum[kGroup];
    if (s.addend) std::memcpy(values, s.addend, count * sizeof(float));
    decode_group(rule, group, s.addend ? values : nullptr, sum, s.scale);
    std::memcpy(s.x, sum, count * sizeof(float));
    s.advance(s.from + bytes, count);
  }
  return true;
}

template <bool kTruncate, bool kKeep, bool kScale = false>
std::byte* encode_all(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to, float* kept,
                      float scale) {
  for (std::size_t i = 0; i < n; i += kGroup)
    to = encode_group<kTruncate, kKeep, kScale>(rule, x + i, to, kKeep ? kept + i : nullptr, scale);
  return to;
}

void decode_whole(const InceptionnRule& rule, InceptionnStream& s) {
  const std::byte* p = s.from;
  std::size_t i = 0;
  for (; s.n - i >= kGroup && static_cast<std::size_t>(s.end - p) >= kLongestGroup + kMargin; i += kGroup)
    p = decode_group(rule, p, s.addend ? s.addend + i : nullptr, s.x + i, s.scale);
  s.advance(p, i);
}

void none_of_both(const InceptionnRule&, InceptionnStream&, InceptionnStream&) {}

constexpr InceptionnKernels kPortable{
    {{encode_all<false, false>, encode_all<false, true>}, {encode_all<true, false>, encode_all<true, true>}},
    {encode_all<false, false, true>, encode_all<false, true, true>},
    {{decode_whole, decode_whole}, {decode_whole, decode_whole}},
    {{none_of_both, none_of_both}, {none_of_both, none_of_both}}};

const InceptionnKernels& kernels() {
#if defined(__x86_64__)
  if (use_avx512()) return kInceptionnAvx512;
  if (use_avx2()) return kInceptionnAvx2;
#endif
  return kPortable;
}

/// One payload, as decode_inceptionn.
bool decode_one(const InceptionnRule& rule, InceptionnStream& s) {
  if (s.n == 0) return true;
  kernels().decode[s.addend != nullptr][s.scale != 1](rule, s);
  return decode_rest(rule, s);
}

}  // namespace

std::byte* encode_inceptionn(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to, float* kept,
                             float scale) {
  if (n == 0) return to;
  const auto encode =
      scale != 1 ? kernels().encode_scaled[kept != nullptr] : kernels().encode[rule.truncate][kept != nullptr];
  const std::size_t whole = n / kPair * kPair, rest = n - whole;
  to = encode(rule, x, whole, to, kept, scale);
  if (rest == 0) return to;
  float values[kPair] = {};
  std::memcpy(values, x + whole, rest * sizeof(float));
  std::byte groups[2 * kLongestGroup];
  const std::byte* end = encode(rule, values, kPair, groups, values, scale);
  if (kept) std::memcpy(kept + whole, values, rest * sizeof(float));
  if (rest <= kGroup) end -= 2;  // the second group is nothing but its tags
  std::memcpy(to, groups, static_cast<std::size_t>(end - groups));
  return to + (end - groups);
}

bool decode_inceptionn(const InceptionnRule& rule, InceptionnStream& a, InceptionnStream& b) {
  const bool scaled = a.scale != 1;
  if (b.n > 0 && scaled == (b.scale != 1)) kernels().decode_both[a.addend != nullptr][scaled](rule, a, b);
  return decode_one(rule, a) && decode_one(rule, b);
}

bool decode_add_encode_inceptionn(const InceptionnRule& rule, InceptionnStream& a, InceptionnStream& b,
                                  std::byte*& to_a, std::byte*& to_b) {
  alignas(64) float tile_a[kInceptionnTile], tile_b[kInceptionnTile];
  while (a.n > 0 || b.n > 0) {
    const std::size_t of_a = std::min(kInceptionnTile, a.n), of_b = std::min(kInceptionnTile, b.n);
    InceptionnStream part_a{a.from, a.end, of_a, a.addend, tile_a}, part_b{b.from, b.end, of_b, b.addend, tile_b};
    if (!decode_inceptionn(rule, part_a, part_b)) return false;
    to_a = encode_inceptionn(rule, tile_a, of_a, to_a);
    to_b = encode_inceptionn(rule, tile_b, of_b, to_b);
    a.advance(part_a.from, of_a);
    b.advance(part_b.from, of_b);
  }
  return true;
}

}  // namespace laconic::compress::cpu
