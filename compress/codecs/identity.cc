#include "compress/codecs.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

/// The codec that changes nothing: the yardstick for the others, and what shows that a collective passes every byte
/// through its codec.
///
///     payload, little-endian      offset 0
///                                        value : f32 n
class Identity final : public SizedCodec {
 public:
  Identity() : SizedCodec("identity", "do not hold", "elements of 4 bytes") {}
  std::size_t max_bytes(std::size_t elements) const override { return elements * sizeof(float); }

 private:
  void write(Slice<const float> x, const Key&, std::byte* to) const override {
    copy_bytes(to, x.device(), x.data(), x.device(), x.size_bytes());
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    copy_bytes(x.data(), x.device(), payload.data(), x.device(), x.size_bytes());
  }
};

}  // namespace

CodecKind identity_codec() {
  return plain_codec("identity", {.loses = false}, [] { return std::make_unique<Identity>(); });
}

}  // namespace laconic::compress
