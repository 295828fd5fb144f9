#include "compress/codec.h"

#include "core/raw.h"

namespace laconic::compress {

void Codec::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  const Storage storage(x.size_bytes(), x.device());
  const Slice<float> addend(reinterpret_cast<float*>(storage.data()), x.size(), x.device());
  decode(payload, addend);
  raw::add_into(x, addend);
}

void Codec::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const {
  decode_add(payload, x);
  encode(x, key, sum);
}

}  // namespace laconic::compress
