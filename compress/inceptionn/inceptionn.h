#pragma once
#include <cstdint>

#include "compress/codecs.h"
#include "compress/inceptionn/kernels.h"

namespace laconic::compress {

/// What the format means by its integers.
///   published  fixed point, cut off: 7 bits in multiples of 2^-7, 15 bits in multiples of 2^-15. As printed; below a
///              bound of 2^-7 it does not keep its bound (at 2^-10, values up to 2^-7 cost 8 bits and decode to zero)
///   bounded    fixed point, rounded to nearest, ties to even: 7 bits in multiples of twice the bound, 15 bits in
///              multiples of that or 2^-15, whichever is smaller. No finite value is further off than the bound
enum class InceptionnMode : std::uint8_t { published, bounded };
const char* to_string(InceptionnMode mode);

/// Bounds 2^exponent that can be asked for: beyond them the steps are no longer normal floats.
inline constexpr int kLeastExponent = -100, kMostExponent = 100;

/// INCEPTIONN's error-bounded codec: a value takes 2, 10, 18 or 34 bits, by its magnitude.
///
///     payload      groups of 8 values (a short last one filled up with zeros); 16 to 272 bits each
///     group        tag : 2 bits a value, value i in bits 2i+1 : 2i of a little-endian u16 | the values in order
///     value        tag 0: nothing                   below the bound: decodes to +0
///                  tag 1: sign, 7-bit integer       1 byte
///                  tag 2: sign, 15-bit integer      2 bytes, little-endian
///                  tag 3: the float                 4 bytes: 1 and above (bounded: what 15 bits cannot hold), NaN too
///
/// A magnitude of 0 with the sign bit decodes to -0. The bits do not depend on the processor.
///
/// Files, and the model of the network card, have a single payload. Between ranks what a long message holds is cut in
/// two, so that both halves are decoded beside each other. In one payload the next group's place is known
/// only from the last one's tags; with two, one is read while the other waits. What is decoded is bit for bit the same.
///
///     below 512 values   a payload; above 2^30 too, whose lengths are beyond 32 bits
///     else               offset 0   bytes of the first payload : u32, little-endian
///                               4   the first payload: values [0, h)        h = half of them, rounded up to `cut`
///                                   the second: values [h, n)
///
/// cost    one pass, 4 bytes read and about 1 written a value; encodes 16 to 30 GB/s of floats on one core with AVX-512
///         VBMI2, decodes 14; two thirds of that with AVX2; without vectors 2.5 and 3.8. As halves, in cache, with
///         AVX-512, decodes 24 GB/s where one payload does 15, and adds and encodes again at 11 where that does 9; with
///         AVX2 18 where that does 10
/// CUDA    the host waits for the length of what was encoded, and for the verdict on what was decoded: 16 bytes each
/// instead fp16 where half of the bytes are enough: it keeps 11 bits of every magnitude
/// source  Li et al. 2018, "A network-centric hardware/algorithm co-design to accelerate distributed training of deep
///         neural networks" (INCEPTIONN), Algorithms 2 and 3; tests/reference/inceptionn.h has them as they are printed
/// throws  DataError from decode if the payload is none of that number of values
class Inceptionn final : public Codec {
 public:
  /// cut : the first of two payloads has a multiple of `cut` values, which is a multiple of 16; 0: always one payload
  /// throws UsageError unless kLeastExponent <= exponent <= kMostExponent
  Inceptionn(InceptionnMode mode, int exponent, std::size_t cut = 0);

  InceptionnMode mode() const { return mode_; }
  int exponent() const { return exponent_; }
  std::size_t cut() const { return cut_; }
  const cpu::InceptionnRule& rule() const { return rule_; }

  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload, Slice<float> read) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override { decode(payload, nullptr, x); }
  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override { decode(payload, x.data(), x); }
  /// In one pass, and x is left as it is; on a CUDA device in two, and x is the sum.
  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const override;
  /// By the shares of Table III for AlexNet, at the nearest of its bounds.
  double expected_bytes(std::size_t elements) const override;

 private:
  /// read : as encode_and_decode has it, or null. On the host.
  void encode_on_host(Slice<const float> x, Bytes& payload, float* read) const;
  /// x = what the payload says, or addend + that.
  void decode(Slice<const std::byte> payload, const float* addend, Slice<float> x) const;

  InceptionnMode mode_;
  int exponent_;
  std::size_t cut_;
  cpu::InceptionnRule rule_;
};

/// INCEPTIONN's codec with a bound that follows the values: of each 4,096 it is 2^E times their mean magnitude, which
/// is taken as the power of two below it. So one setting fits every layer and every stage of a training; an absolute
/// bound drops all of a layer whose gradients lie below it.
///
///     payload      exponent : i8 for each 4,096 values | the message of Inceptionn (bounded, cut at multiples
///                  of 4,096) with the bound 2^(E - 8), of the values divided by 2^exponent, which is exact: their
///                  mean is 2^-8 to 2^-7 then
///
/// No finite value is further off than the bound, which has a floor: a mean magnitude below 2^-100 counts as 2^-100.
/// The exponent of values with an infinity or a NaN among them is 0, and of those whose sum is beyond a float's range.
/// cost    on the host one pass over memory, as Inceptionn, and two more over 4,096 values in the nearest cache; on a
///         CUDA device two passes more
class RelativeInceptionn final : public Codec {
 public:
  /// throws UsageError unless -20 <= exponent <= 20
  explicit RelativeInceptionn(int exponent);
  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload, Slice<float> read) const override;
  void encode_with_feedback(Slice<float> x, Slice<float> lost, const Key& key, Bytes& payload,
                            bool settle) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override;
  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const override;
  /// Assumes values with a Laplace distribution.
  double expected_bytes(std::size_t elements) const override;

 private:
  int exponent_;
  Inceptionn inner_;
};

/// The class limits and scales of a mode and bound.
cpu::InceptionnRule inceptionn_rule(InceptionnMode mode, int exponent);

}  // namespace laconic::compress
