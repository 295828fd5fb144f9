#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/cuda/inceptionn.h"
#include "compress/inceptionn/inceptionn.h"
#include "compress/inceptionn/message.h"
#include "compress/ordered_sum.h"
#include "compress/select/residual.h"
#include "compress/codecs/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

using laconic::cpu::HalfLanes;

constexpr std::size_t kScaledBlock = kSumChunk;

std::size_t scaled_blocks(std::size_t elements) { return (elements + kScaledBlock - 1) / kScaledBlock; }

/// The sum of magnitudes of at most kScaledBlock values: value i goes to lane i modulo kSumLanes, lanes are added up in
/// their order. (Written for vectors: g++ takes a loop over lanes in an array apart. Made as Magnitudes{}: clang
/// forgets a constructor that only versions of a function call.)
struct Magnitudes {
  HalfLanes low{}, high{};

  LACONIC_INLINE void add(const HalfLanes& first, const HalfLanes& second) {
    typedef std::int32_t Bits __attribute__((vector_size(32)));
    low += (HalfLanes)((Bits)first & 0x7FFFFFFF), high += (HalfLanes)((Bits)second & 0x7FFFFFFF);
  }
  LACONIC_INLINE float sum(const float* rest, std::size_t n) const {
    float lanes[kSumLanes];
    laconic::cpu::store(lanes, low), laconic::cpu::store(lanes + kSumLanes / 2, high);
    for (std::size_t l = 0; l < n; ++l) lanes[l] += std::abs(rest[l]);
    float all = 0;
    for (const float lane : lanes) all += lane;
    return all;
  }
};

LACONIC_MULTIVERSION float sum_of_magnitudes(const float* x, std::size_t n) {
  Magnitudes sums{};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    HalfLanes a, b;
    laconic::cpu::load(a, x + i), laconic::cpu::load(b, x + i + kSumLanes / 2);
    sums.add(a, b);
  }
  return sums.sum(x + i, n - i);
}

/// y += x. Returns the sum of its magnitudes.
LACONIC_MULTIVERSION float add_values(float* y, const float* x, std::size_t n) {
  Magnitudes sums{};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    HalfLanes a, b, c, d;
    laconic::cpu::load(a, y + i), laconic::cpu::load(b, y + i + kSumLanes / 2);
    laconic::cpu::load(c, x + i), laconic::cpu::load(d, x + i + kSumLanes / 2);
    a = c + a, b = d + b;
    laconic::cpu::store(y + i, a), laconic::cpu::store(y + i + kSumLanes / 2, b);
    sums.add(a, b);
  }
  for (std::size_t l = i; l < n; ++l) y[l] = x[l] + y[l];
  return sums.sum(y + i, n - i);
}

/// A block in the nearest cache.
struct Tile {
  alignas(64) float values[kScaledBlock];
};

/// The two parts of a payload of n values.
struct RelativeParts {
  const std::int8_t* exponents;
  Slice<const std::byte> message;

  /// throws DataError if it is too short
  RelativeParts(Slice<const std::byte> payload, std::size_t n)
      : exponents(reinterpret_cast<const std::int8_t*>(payload.data())) {
    const std::size_t blocks = scaled_blocks(n);
    if (payload.size() < blocks) refuse_inceptionn(payload.size(), n);
    message = payload.sub(blocks, payload.size() - blocks);
  }
  int exponent(std::size_t at) const { return exponents[at / kScaledBlock]; }
};

/// Decodes both parts of a message of n values beside each other, block by block.
///   place(first value, tile) : returns what is added, or null, and where a block goes: to the tile, or elsewhere
///   use(first value, count, tile) : follows
///   throws DataError if it is none
template <class Place, class Use>
void read_blocks(const Inceptionn& codec, const RelativeParts& parts, std::size_t n, Place&& place, Use&& use) {
  const InceptionnLayout layout(n, codec.cut());
  InceptionnStreams all(layout, parts.message, nullptr, nullptr);
  Tile a, b;
  const auto next = [&](const cpu::InceptionnStream& s, std::size_t at, Tile& tile) {
    const std::pair<const float*, float*> where = place(at, tile.values);
    return cpu::InceptionnStream{s.from,      s.end,        std::min(kScaledBlock, s.n),
                                 where.first, where.second, power_of_two(parts.exponent(at))};
  };
  for (std::size_t at = 0; at < layout.h; at += kScaledBlock) {
    cpu::InceptionnStream of_a = next(all.first, at, a), of_b{};
    if (all.second.n > 0) of_b = next(all.second, layout.h + at, b);
    const std::size_t in_a = of_a.n, in_b = of_b.n;
    if (!cpu::decode_inceptionn(codec.rule(), of_a, of_b)) refuse_inceptionn(parts.message.size(), n);
    all.first.advance(of_a.from, in_a);
    if (in_b > 0) all.second.advance(of_b.from, in_b);
    use(at, in_a, a.values);
    if (in_b > 0) use(layout.h + at, in_b, b.values);
  }
  if (!all.ended()) refuse_inceptionn(parts.message.size(), n);
}

/// Encodes a block whose magnitudes have that sum, divided by 2^exponent.
///   read : what decoding makes of it, or null; may be x
std::byte* encode_block(const Inceptionn& codec, const float* x, float sum, std::size_t n, std::byte* to,
                        std::int8_t& exponent, float* read = nullptr) {
  exponent = static_cast<std::int8_t>(exponent_for_mean(sum, n));
  return cpu::encode_inceptionn(codec.rule(), x, n, to, read, power_of_two(-exponent));
}

/// Appends the payload of n values on the host, block by block.
///   block(first value, count) : returns where they lie, and the sum of their magnitudes
///   read(first value, tile) : where to put what decoding makes of them: the tile, or elsewhere; null: nowhere
///   then(first value, count, tile) : follows
template <class Block, class Read, class Then>
void encode_blocks(const RelativeInceptionn& codec, const Inceptionn& inner, std::size_t n, Bytes& payload,
                   Block&& block, Read&& read, Then&& then) {
  payload.reserve(payload.size() + codec.max_bytes(n));
  auto* const exponents = reinterpret_cast<std::int8_t*>(payload.append(scaled_blocks(n)).data());
  const std::size_t before = payload.size();
  std::byte* const to = payload.append(inner.max_bytes(n)).data();
  const auto encode_part = [&](std::size_t first, std::size_t count, std::byte* part) {
    Tile tile;
    for (std::size_t at = first; at < first + count; at += kScaledBlock) {
      const std::size_t here = std::min(kScaledBlock, first + count - at);
      const auto [values, magnitudes] = block(at, here);
      part = encode_block(inner, values, magnitudes, here, part, exponents[at / kScaledBlock], read(at, tile.values));
      then(at, here, tile.values);
    }
    return part;
  };
  const std::byte* const end = encode_parts(InceptionnLayout(n, inner.cut()), to, encode_part);
  payload.resize(before + static_cast<std::size_t>(end - to));
}

constexpr auto kNowhere = [](std::size_t, float*) -> float* { return nullptr; };
constexpr auto kNothing = [](std::size_t, std::size_t, float*) {};

/// The blocks of values as they are.
auto blocks_of(const float* x) {
  return [x](std::size_t at, std::size_t n) { return std::pair(x + at, sum_of_magnitudes(x + at, n)); };
}

}  // namespace

CodecKind inceptionn_relative_codec() {
  return {"inceptionn:rel",
          "inceptionn:rel:2^E",
          "inceptionn:rel:2^-1",
          "give the error bound as a power of two, in mean magnitudes",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto exponent = codec_power(numbers);
            return exponent ? std::make_unique<RelativeInceptionn>(*exponent) : nullptr;
          }};
}

RelativeInceptionn::RelativeInceptionn(int exponent)
    : exponent_(exponent), inner_(InceptionnMode::bounded, std::clamp(exponent, -20, 20) - 8, kScaledBlock) {
  require<UsageError>(exponent >= -20 && exponent <= 20, "the bound 2^", exponent,
                      " of a mean (inceptionn:rel): choose one from 2^-20 to 2^20");
}

std::size_t RelativeInceptionn::max_bytes(std::size_t elements) const {
  return scaled_blocks(elements) + inner_.max_bytes(elements);
}

void RelativeInceptionn::encode(Slice<const float> x, const Key& key, Bytes& payload) const {
  if (x.empty()) return;
  on_device(
      x.device(), [&] { encode_blocks(*this, inner_, x.size(), payload, blocks_of(x.data()), kNowhere, kNothing); },
      [&] {
        const std::size_t n = x.size();
        const Storage scaled(n * sizeof(float), x.device());
        auto* const y = reinterpret_cast<float*>(scaled.data());
        payload.reserve(payload.size() + max_bytes(n));
        auto* const exponents = reinterpret_cast<std::int8_t*>(payload.append(scaled_blocks(n)).data());
        cuda::scale_by_means(x.data(), n, exponents, y);
        inner_.encode(Slice<const float>(y, n, x.device()), key, payload);
      });
}

void RelativeInceptionn::encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload,
                                           Slice<float> read) const {
  if (x.empty()) return;
  const auto on_host = [&] {
    encode_blocks(
        *this, inner_, x.size(), payload, blocks_of(x.data()), [&](std::size_t at, float*) { return read.data() + at; },
        kNothing);
  };
  on_device(x.device(), on_host, [&] { Codec::encode_and_decode(x, key, payload, read); });
}

void RelativeInceptionn::encode_with_feedback(Slice<float> x, Slice<float> lost, const Key& key, Bytes& payload,
                                              bool settle) const {
  if (x.empty()) return;
  const auto on_host = [&] {
    const auto block = [&](std::size_t at, std::size_t n) {
      float* const sum = lost.data() + at;
      return std::pair<const float*, float>(sum, add_values(sum, x.data() + at, n));
    };
    const auto read = [&](std::size_t at, float* tile) { return settle ? x.data() + at : tile; };
    encode_blocks(*this, inner_, x.size(), payload, block, read, [&](std::size_t at, std::size_t n, float* tile) {
      float* const left = lost.data() + at;
      keep_left(Slice<float>(left, n), Slice<const float>(left, n), Slice<const float>(read(at, tile), n));
    });
  };
  on_device(x.device(), on_host, [&] { Codec::encode_with_feedback(x, lost, key, payload, settle); });
}

void RelativeInceptionn::decode(Slice<const std::byte> payload, Slice<float> x) const {
  const RelativeParts all(payload, x.size());
  const auto on_host = [&] {
    const auto place = [&](std::size_t at, float*) { return std::pair<const float*, float*>(nullptr, x.data() + at); };
    read_blocks(inner_, all, x.size(), place, kNothing);
  };
  on_device(x.device(), on_host, [&] {
    inner_.decode(all.message, x);
    cuda::scale_back(all.exponents, x.size(), x.data());
  });
}

void RelativeInceptionn::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  if (x.device().kind == Device::Kind::cuda) return Codec::decode_add(payload, x);
  const RelativeParts all(payload, x.size());
  on_device(x.device(), [&] {
    const auto place = [&](std::size_t at, float*) {
      return std::pair<const float*, float*>(x.data() + at, x.data() + at);
    };
    read_blocks(inner_, all, x.size(), place, kNothing);
  });
}

void RelativeInceptionn::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key,
                                           Bytes& sum) const {
  if (x.device().kind == Device::Kind::cuda) return Codec::decode_add_encode(payload, x, key, sum);
  const std::size_t n = x.size();
  const RelativeParts all(payload, n);
  sum.reserve(sum.size() + max_bytes(n));
  auto* const exponents = reinterpret_cast<std::int8_t*>(sum.append(scaled_blocks(n)).data());
  on_device(x.device(), [&] {
    const InceptionnLayout layout(n, inner_.cut());
    encode_both(layout, inner_.max_bytes(n), sum, [&](std::byte*& first, std::byte*& second) {
      const auto place = [&](std::size_t at, float* tile) {
        return std::pair<const float*, float*>(x.data() + at, tile);
      };
      read_blocks(inner_, all, n, place, [&](std::size_t at, std::size_t count, const float* values) {
        std::byte*& to = at < layout.h ? first : second;
        to = encode_block(inner_, values, sum_of_magnitudes(values, count), count, to, exponents[at / kScaledBlock]);
      });
    });
  });
}

double RelativeInceptionn::expected_bytes(std::size_t elements) const {
  const double bound = std::ldexp(0.72, exponent_);  // in means: the power of two below a mean is about 0.72 of it
  const double bits = 2 + 8 * std::exp(-bound) + 8 * std::exp(-255 * bound);
  return static_cast<double>(scaled_blocks(elements)) + static_cast<double>(elements) * bits / 8;
}

}  // namespace laconic::compress
