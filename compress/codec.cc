#include "compress/codec.h"

#include "compress/cuda/codecs.h"
#include "core/dispatch.h"

namespace laconic::compress {

void Codec::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  const Storage storage(x.size_bytes(), x.device());
  const Slice<float> addend(reinterpret_cast<float*>(storage.data()), x.size(), x.device());
  decode(payload, addend);
  on_device(
      x.device(),
      [&] {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += addend[i];
      },
      [&] { cuda::add(x.data(), addend.data(), x.size()); });
}

void Codec::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const {
  decode_add(payload, x);
  encode(x, key, sum);
}

}  // namespace laconic::compress
