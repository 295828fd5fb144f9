#include "compress/identity.h"

#include <cstring>

#include "core/dispatch.h"

namespace laconic::compress {

void Identity::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  const Slice<std::byte> out = payload.append(x.size_bytes());
  if (x.empty()) return;
  on_device(x.device(), [&] { std::memcpy(out.data(), x.data(), x.size_bytes()); });
}

void Identity::decode(Slice<const std::byte> payload, Slice<float> x) const {
  require<DataError>(payload.size() == x.size_bytes(), "identity codec: ", payload.size(), " bytes do not hold ",
                     x.size(), " elements of 4 bytes. Do all ranks use the same codec?");
  if (x.empty()) return;
  on_device(x.device(), [&] { std::memcpy(x.data(), payload.data(), x.size_bytes()); });
}

}  // namespace laconic::compress
