#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "compress/codec.h"

namespace laconic::dist {

/// What a rank does to memory. Amounts are elements, but for sums, which are bytes.
enum class Work : std::uint8_t {
  adding,  ///< so many bytes and as many others
  encoding,
  decoding,    ///< by the plan's codec
  gathering,   ///< a residual takes up so much of a gradient
  selecting,   ///< so much of a residual is chosen from
  scattering,  ///< so many chosen elements are added where they belong
  updating,    ///< by a server's optimiser
};

/// Hears what strategies and collectives would do to memory that is not there (Device::Kind::ghost), so that it can
/// take virtual time.
class GhostWork {
 public:
  virtual void did(Work work, std::size_t amount) = 0;

  /// Tells the one that this thread works for, if there is one.
  static void tell(Work work, std::size_t amount) {
    if (current != nullptr) current->did(work, amount);
  }
  /// Likewise, where the memory is a ghost's.
  static void tell(Device device, Work work, std::size_t amount) {
    if (device == kGhost) [[unlikely]]
      tell(work, amount);
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

/// Returns the codec, or, for a ghost's memory, its stand-in, which lives in `place`. Null stays null.
inline const compress::Codec* codec_for(Device device, const compress::Codec* codec, std::optional<GhostCodec>& place) {
  return codec != nullptr && device == kGhost ? &place.emplace(*codec) : codec;
}

}  // namespace laconic::dist
