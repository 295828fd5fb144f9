#pragma once
#include "compress/codecs.h"

namespace laconic::compress {

/// General compressors over the floats' bytes, which they give back bit by bit: for contrast, since gradients hardly
/// shrink by them.
///     snappy   what INCEPTIONN measures beside its own (Fig. 7)
///     lz4      the fastest of its kind
/// The payload is the library's block format. What lies on a CUDA device goes through host memory, and waits for it.
/// Which of them a build has is decided at configure time.
/// throws  UsageError from the constructor if this build has not that library
///         DataError from decode if the payload is not one of so many floats; ShapeError beyond 2^28 values
class Lossless final : public Codec {
 public:
  enum class Library : std::uint8_t { snappy, lz4 };
  explicit Lossless(Library library);
  static CodecKind kind(Library library);
  std::size_t max_bytes(std::size_t elements) const override;
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override;
  void decode(Slice<const std::byte> payload, Slice<float> x) const override;
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(4 * elements); }

 private:
  Library library_;
};

}  // namespace laconic::compress
