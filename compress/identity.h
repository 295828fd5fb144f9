#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// The codec that changes nothing: the yardstick for the others, and what shows that a collective passes every byte
/// through its codec.
///
///     payload, little-endian      offset 0
///                                        value : f32 n
class Identity final : public Codec {
 public:
  static CodecKind kind();
  std::size_t max_bytes(std::size_t elements) const override { return elements * sizeof(float); }
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(max_bytes(elements)); }
};

}  // namespace laconic::compress
