#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// 2 bytes a value, rounded to nearest, ties to even. NaN stays NaN.
///     fp16   IEEE binary16: 11 bits of the magnitude, 6e-8 to 65504; larger ones become infinity
///     bf16   the upper half of a float: 8 bits of the magnitude, all of its range
/// cost    one pass, 16 bits sent for 32
/// throws  DataError from decode if the length is wrong
class Half final : public Codec {
 public:
  enum class Format : std::uint8_t { fp16, bf16 };
  explicit Half(Format format) : format_(format) {}
  static CodecKind fp16();
  static CodecKind bf16();
  std::size_t max_bytes(std::size_t elements) const override { return 2 * elements; }
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return 2.0 * static_cast<double>(elements); }

 private:
  Format format_;
};

}  // namespace laconic::compress
