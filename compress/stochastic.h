#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// Rounds at random to one of few levels, so that the expectation is the value itself (TernGrad: but for clipping).
/// Every bucket of values has a scale s, its largest magnitude; a value is sign and level of `bits` bits, level l with
/// L = 2^(bits-1) - 1 worth l s / L, one of the two beside the value with the probability that makes them right.
///
///     payload   for each bucket   scale : f32 | values, lowest bits first, each 128 filled up to a byte
///
/// A bucket with NaN or infinity decodes to NaN; one below 2^-100 to 0.
/// cost    two passes and a random number a value
/// source  QSGD, Alistarh et al. 2017, with the scale by the largest magnitude (its section 4); TernGrad, Wen et al.
///         2017: 2 bits, all values one bucket, magnitudes clipped at 2.5 standard deviations (its eq. 10)
/// throws  DataError from decode if the length is wrong
class Stochastic final : public Codec {
 public:
  /// throws UsageError unless 2 <= bits <= 16 and 1 <= bucket <= 2^30
  static Stochastic qsgd(int bits, std::size_t bucket);
  static Stochastic terngrad();
  static CodecKind qsgd_kind();
  static CodecKind terngrad_kind();

  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(max_bytes(elements)); }

 private:
  Stochastic(unsigned bits, std::size_t bucket, float clip) : bits_(bits), bucket_(bucket), clip_(clip) {}

  unsigned bits_;
  std::size_t bucket_;  // 0: all values
  float clip_;          // in standard deviations; 0: not at all
};

}  // namespace laconic::compress
