#pragma once
#include <cstddef>

#include "compress/codec.h"

namespace laconic::dist {

/// Hears what collectives would do to memory that is not there (Device::Kind::ghost), so that it can take virtual time.
class GhostWork {
 public:
  virtual void added(std::size_t bytes) = 0;  ///< a sum of so many bytes and as many others
  virtual void encoded(std::size_t elements) = 0;
  virtual void decoded(std::size_t elements) = 0;

  /// Tells the one that this thread works for, if there is one.
  static void tell(void (GhostWork::*what)(std::size_t), std::size_t amount) {
    if (current != nullptr) (current->*what)(amount);
  }
  static thread_local GhostWork* current;

 protected:
  ~GhostWork() = default;
};

/// A codec for ghosts: payloads have the length that the real one expects, and no contents.
class GhostCodec final : public compress::Codec {
 public:
  /// `real` must outlive this.
  explicit GhostCodec(const compress::Codec& real) : real_(real) {}
  std::size_t max_bytes(std::size_t elements) const override { return real_.max_bytes(elements); }
  double expected_bytes(std::size_t elements) const override { return real_.expected_bytes(elements); }
  void encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const override;
  void encode_and_decode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload,
                         Slice<float>) const override;
  void encode_with_feedback(Slice<float> x, Slice<float> lost, const compress::Key& key, compress::Bytes& payload,
                            bool settle) const override;
  void decode(Slice<const std::byte>, Slice<float> x) const override;
  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override { decode(payload, x); }
  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const compress::Key& key,
                         compress::Bytes& sum) const override;

 private:
  const compress::Codec& real_;
};

}  // namespace laconic::dist
