#pragma once
#include "compress/codecs.h"
#include "compress/inceptionn.h"

namespace laconic::compress {

/// INCEPTIONN's codec as it travels between ranks: what a long message holds is cut in two, so that both halves are
/// decoded beside each other. Of one payload the next group's place is known only from the last one's tags; of two,
/// one is read while the other waits.
///
///     below 512 values   a payload of compress/inceptionn.h; above 2^30 too, whose lengths are beyond 32 bits
///     else               offset 0   bytes of the first payload : u32, little-endian
///                               4   the first payload: values [0, h)        h = half of them, rounded up to 16
///                                   the second: values [h, n)
///
/// What is decoded is bit for bit what a single payload gives. Files, and the model of the network card, have single
/// ones.
/// cost    one pass; in cache, with AVX-512, decodes 24 GB/s of floats on one core where one payload does 15, and adds
///         and encodes again at 11 where that does 9; with AVX2 18 where that does 10
/// throws  DataError from decode if the message is none of so many values; UsageError as Inceptionn
class InceptionnHalves final : public Codec {
 public:
  InceptionnHalves(InceptionnMode mode, int exponent) : one_(mode, exponent), rule_(inceptionn_rule(mode, exponent)) {}
  static CodecKind kind(InceptionnMode mode);

  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override;
  /// In one pass, and x is left as it is; on a CUDA device in two, and x is the sum.
  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const override;
  double expected_bytes(std::size_t elements) const override;

 private:
  Inceptionn one_;
  cpu::InceptionnRule rule_;
};

}  // namespace laconic::compress
