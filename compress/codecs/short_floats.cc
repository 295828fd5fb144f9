#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "compress/codecs.h"
#include "compress/cpu/groups.h"
#include "compress/cpu/isa.h"
#include "compress/cpu/unpack.h"
#include "compress/cuda/codecs.h"
#include "compress/codecs/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace laconic::compress {
namespace {

using cpu::kBlock;

#if defined(__x86_64__)
#define LACONIC_F16C __attribute__((target("avx2,f16c")))
/// Both return how many values they have done: all but less than a vector.
LACONIC_F16C std::size_t to_fp16_vectors(const float* x, std::size_t n, float factor, std::byte* to) {
  const __m256 factors = _mm256_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i),
                     _mm256_cvtps_ph(_mm256_mul_ps(_mm256_loadu_ps(x + i), factors), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
LACONIC_F16C std::size_t from_fp16_vectors(const std::byte* from, std::size_t n, float factor, float* x) {
  const __m256 factors = _mm256_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 halves = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i)));
    _mm256_storeu_ps(x + i, _mm256_mul_ps(halves, factors));
  }
  return i;
}
#endif

/// IEEE binary16 of values that are divided by a power of two, one for each 4,096 of them: 11 bits of the magnitude.
///
///     payload   the halves : u16 each, little-endian | exponent : i8 for each 4,096 values
///
/// The exponent is the one that brings the largest magnitude to 2^15 to 65504 (half_exponent), so that sums over any
/// number of ranks do not overflow. A value is off by 2^-11 of itself at most, or 2^-40 of the largest of its 4,096: no
/// more than in plain binary16, where that holds them all. To divide by the number of ranks would need no exponents,
/// and lose more of the gradients below 6e-5, which plain binary16 rounds to multiples of 6e-8. Rounded to nearest,
/// ties to even. NaN stays NaN; the exponent of values with an infinity or a NaN among them is 0. From 2^128 - 2^116 on
/// a value becomes infinity. Every processor gives the same bits.
/// cost    one pass over memory, and one over 4,096 values in the nearest cache; 16 bits sent for 32
class Fp16 final : public SizedCodec {
 public:
  Fp16() : SizedCodec("fp16", "do not hold", "elements of 2 bytes") {}
  std::size_t max_bytes(std::size_t elements) const override {
    return 2 * elements + (elements + kHalvesOfAnExponent - 1) / kHalvesOfAnExponent;
  }

 private:
  /// f(first value, count, place of its exponent) for all that have one exponent.
  template <class F>
  static void for_blocks(std::size_t n, F f) {
    for (std::size_t b = 0; b < n; b += kHalvesOfAnExponent)
      f(b, std::min(kHalvesOfAnExponent, n - b), 2 * n + b / kHalvesOfAnExponent);
  }

  void write(Slice<const float> x, const Key&, std::byte* to) const override {
    const auto on_host = [&] {
      for_blocks(x.size(), [&](std::size_t first, std::size_t count, std::size_t place) {
        const float* const from = x.data() + first;
        std::byte* const halves = to + 2 * first;
        const int exponent = half_exponent(cpu::largest_magnitude(from, count));
        to[place] = static_cast<std::byte>(exponent);
        const float factor = power_of_two(-exponent);
        std::size_t i = 0;
#if defined(__x86_64__)
        if (cpu::use_avx2()) i = to_fp16_vectors(from, count, factor, halves);
#endif
        for (; i < count; ++i) {
          const std::uint16_t h = fp16_of(factor * from[i]);
          std::memcpy(halves + 2 * i, &h, sizeof h);
        }
      });
    };
    on_device(x.device(), on_host, [&] { cuda::to_fp16(x.data(), x.size(), to); });
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const auto on_host = [&] {
      for_blocks(x.size(), [&](std::size_t first, std::size_t count, std::size_t place) {
        float* const to = x.data() + first;
        const std::byte* const halves = payload.data() + 2 * first;
        const float factor = power_of_two(static_cast<std::int8_t>(payload.data()[place]));
        std::size_t i = 0;
#if defined(__x86_64__)
        if (cpu::use_avx2()) i = from_fp16_vectors(halves, count, factor, to);
#endif
        for (; i < count; ++i) {
          std::uint16_t h;
          std::memcpy(&h, halves + 2 * i, sizeof h);
          to[i] = factor * float_of(h);
        }
      });
    };
    on_device(x.device(), on_host, [&] { cuda::from_fp16(payload.data(), x.size(), x.data()); });
  }
};

template <class Word, bool kRounds>
LACONIC_INLINE void cut_loop(const float* LACONIC_RESTRICT x, std::size_t n, std::byte* LACONIC_RESTRICT to) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const auto word = static_cast<Word>(kRounds ? bf16_of(bits) : bits >> (32 - 8 * sizeof(Word)));
    std::memcpy(to + i * sizeof(Word), &word, sizeof word);
  }
}
template <class Word>
LACONIC_INLINE void restore_loop(const std::byte* LACONIC_RESTRICT from, std::size_t n, float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof word);
    const std::uint32_t bits = std::uint32_t{word} << (32 - 8 * sizeof(Word));
    std::memcpy(x + i, &bits, sizeof bits);
  }
}
LACONIC_MULTIVERSION void round16(const float* x, std::size_t n, std::byte* to) {
  cut_loop<std::uint16_t, true>(x, n, to);
}
LACONIC_MULTIVERSION void cut16(const float* x, std::size_t n, std::byte* to) {
  cut_loop<std::uint16_t, false>(x, n, to);
}
LACONIC_MULTIVERSION void cut24(const float* x, std::size_t n, std::byte* to) {
  cut_loop<std::uint8_t, false>(x, n, to);
}
LACONIC_MULTIVERSION void restore16(const std::byte* from, std::size_t n, float* x) {
  restore_loop<std::uint16_t>(from, n, x);
}
LACONIC_MULTIVERSION void restore24(const std::byte* from, std::size_t n, float* x) {
  restore_loop<std::uint8_t>(from, n, x);
}

/// Leaves out the low bits of every float. What is left is packed as it is, lowest bits first, each 128 values filled
/// up to a byte.
///     bf16    the upper 16 bits, rounded to nearest, ties to even: 8 bits of the magnitude, all of its range.
///             NaN stays NaN
///     trunc   cuts off. Cut 16: sign, exponent, 7 bits of 23: what bf16 keeps, but towards zero
///             cut 22: sign, exponent, 1 bit: 0, 2^e or 1.5 2^e
///             cut 24: sign and 7 of the exponent's 8 bits: 0 or a power of 4, halved
/// Cut off, NaN may become infinity, and where 24 bits or more go both become finite. 24 destroys training, which is
/// what the paper shows with it.
/// cost    one pass; without vectors unless 16 or 24 are cut
/// source  INCEPTIONN, Figs. 4, 7 and 14 (truncation)
class UpperBits final : public SizedCodec {
 public:
  /// rounds: bf16, of which 16 bits are cut.   throws UsageError unless 1 <= cut <= 31
  explicit UpperBits(int cut, bool rounds = false)
      : SizedCodec(rounds ? "bf16" : "truncation", rounds ? "do not hold" : "are no",
                   rounds ? "elements of 2 bytes" : concat("values of ", 32 - cut, " bits")),
        cut_(static_cast<unsigned>(cut)),
        width_(32 - cut_),
        rounds_(rounds) {
    require<UsageError>(cut >= 1 && cut <= 31, "a float cannot lose ", cut,
                        " of its 32 bits (trunc): cut off 1 to 31, as trunc:16");
  }
  std::size_t max_bytes(std::size_t elements) const override { return cpu::packed_bytes(elements, width_); }

 private:
  void write(Slice<const float> x, const Key&, std::byte* to) const override {
    const auto on_host = [&] {
      if (cut_ == 16) return (rounds_ ? round16 : cut16)(x.data(), x.size(), to);
      if (cut_ == 24) return cut24(x.data(), x.size(), to);
      std::uint32_t numbers[kBlock];
      for (std::size_t i = 0; i < x.size(); i += kBlock) {
        const std::size_t count = std::min(kBlock, x.size() - i);
        for (std::size_t j = 0; j < count; ++j) numbers[j] = std::bit_cast<std::uint32_t>(x[i + j]) >> cut_;
        to = cpu::pack(numbers, count, width_, to);
      }
    };
    on_device(x.device(), on_host, [&] { cuda::to_upper_bits(x.data(), x.size(), cut_, rounds_, to); });
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const auto on_host = [&] {
      if (cut_ == 16) return restore16(payload.data(), x.size(), x.data());
      if (cut_ == 24) return restore24(payload.data(), x.size(), x.data());
      cpu::from_upper_bits(payload.data(), payload.end(), cut_, x.size(), x.data());
    };
    on_device(x.device(), on_host, [&] { cuda::from_upper_bits(payload.data(), x.size(), cut_, x.data()); });
  }

  unsigned cut_, width_;
  bool rounds_;
};

}  // namespace

CodecKind fp16_codec() {
  return plain_codec("fp16", {}, [] { return std::make_unique<Fp16>(); });
}

CodecKind bf16_codec() {
  return plain_codec("bf16", {}, [] { return std::make_unique<UpperBits>(16, true); });
}

CodecKind truncation_codec() {
  return {"trunc",
          "trunc:BITS",
          "trunc:16",
          "give the bits to cut off",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto bits = codec_number(numbers);
            return bits ? std::make_unique<UpperBits>(*bits) : nullptr;
          }};
}

}  // namespace laconic::compress
