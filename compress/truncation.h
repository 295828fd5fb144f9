#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// Cuts off the low bits of every float. What is left is packed as it is, lowest bits first, each 128 values filled up
/// to a byte:
///     cut 16: sign, exponent, 7 bits of 23: what bf16 keeps, but towards zero
///     cut 22: sign, exponent, 1 bit: 0, 2^e or 1.5 2^e
///     cut 24: sign and 7 of the exponent's 8 bits: 0 or a power of 4, halved
/// NaN may become infinity, and where 24 bits or more go both become finite. 24 destroys training, which is what the
/// paper shows with it.
/// cost    one pass; without vectors unless 16 or 24 are cut
/// source  INCEPTIONN, Figs. 4, 7 and 14 (truncation)
/// throws  UsageError unless 1 <= cut <= 31; DataError from decode if the length is wrong
class Truncation final : public Codec {
 public:
  explicit Truncation(int cut);
  static CodecKind kind();
  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(max_bytes(elements)); }

 private:
  unsigned cut_, width_;
};

}  // namespace laconic::compress
