#include "compress/identity.h"

#include "core/stream.h"

namespace laconic::compress {

CodecKind Identity::kind() {
  return plain_codec("identity", {.loses = false}, [] { return std::make_unique<Identity>(); });
}

void Identity::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  const Slice<std::byte> out = payload.append(x.size_bytes());
  copy_bytes(out.data(), x.device(), x.data(), x.device(), x.size_bytes());
}

void Identity::decode(Slice<const std::byte> payload, Slice<float> x) const {
  require<DataError>(payload.size() == x.size_bytes(), "identity codec: ", payload.size(), " bytes do not hold ",
                     x.size(), " elements of 4 bytes. Do all ranks use the same codec?");
  copy_bytes(x.data(), x.device(), payload.data(), x.device(), x.size_bytes());
}

}  // namespace laconic::compress
