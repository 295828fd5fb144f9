#include "compress/codec.h"

#include <cmath>

#include "compress/select/residual.h"
#include "core/raw.h"

namespace laconic::compress {

void Codec::encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload, Slice<float> read) const {
  const std::size_t before = payload.size();
  encode(x, key, payload);
  decode(payload.slice().sub(before, payload.size() - before), read);
}

void Codec::encode_with_feedback(Slice<float> x, Slice<float> lost, const Key& key, Bytes& payload, bool settle) const {
  const std::size_t before = payload.size();
  raw::add_into(x, lost);
  encode_and_decode(x, key, payload, lost);
  keep_left(lost, x, lost);
  if (settle) decode(payload.slice().sub(before, payload.size() - before), x);
}

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

void require_sendable(const Codec& codec, Slice<const float> x, const Key& key) {
  const float largest = codec.largest();
  if (largest == std::numeric_limits<float>::max()) return;
  const ResidualStats stats = residual_stats(x);
  const float most = stats.nan ? std::numeric_limits<float>::quiet_NaN() : stats.max(Sign::any);
  if (most <= largest) return;
  throw OutOfRange(std::isfinite(most) ? concat("a magnitude of ", most, " in step ", key.step, " is beyond ", largest,
                                                ", the largest that its codec can send (`codec`): take bf16 or fp16")
                                       : concat("what is to be sent in step ", key.step,
                                                " is not finite: lower `lr`, or clip gradients (`clip` norm:5)"));
}

void SizedCodec::encode(Slice<const float> x, const Key& key, Bytes& payload) const {
  std::byte* const to = payload.append(max_bytes(x.size())).data();
  if (!x.empty()) write(x, key, to);
}

void SizedCodec::decode(Slice<const std::byte> payload, Slice<float> x) const {
  require<DataError>(payload.size() == max_bytes(x.size()), name_, " codec: ", payload.size(), " bytes ", where_, " ",
                     x.size(), " ", values_, ". Do all ranks use the same codec?");
  if (!x.empty()) read(payload, x);
}

}  // namespace laconic::compress
