#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// One bit a value, and two values a bucket of 512: the mean of those below zero, and of the others. So a bucket keeps
/// its sum, and little else: what is lost has to be added to what is encoded next (error feedback, which whoever uses
/// it keeps: CodecTraits::remembers). The two together are 1-bit SGD.
///
///     payload   for each bucket   mean of the values that are not below 0 : f32 | of those below : f32 |
///                                 a bit a value, lowest first, 1: below; filled up to a byte
///
/// What is no number makes the mean of its sign none.
/// source  1-bit SGD, Seide et al. 2014, sections 3.1 and 3.2 (threshold 0, means that keep the sum; settled: its means
///         are of columns of a weight matrix, these of 512 neighbours, since a message knows no shapes)
/// throws  DataError from decode if the length is wrong
class OneBit final : public Codec {
 public:
  static constexpr std::size_t kBucket = 512;
  static CodecKind kind();
  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(max_bytes(elements)); }
};

}  // namespace laconic::compress
