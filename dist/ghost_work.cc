#include "dist/ghost_work.h"

#include <algorithm>
#include <cmath>

namespace laconic::dist {

thread_local GhostWork* GhostWork::current = nullptr;

void GhostCodec::encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const {
  GhostWork::tell(Work::encoding, x.size());
  const auto expected = static_cast<std::size_t>(std::llround(real_.expected_bytes(x.size())));
  payload.append(std::min(expected, real_.max_bytes(x.size())));
}

void GhostCodec::encode_and_decode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload,
                                   Slice<float>) const {
  encode(x, key, payload);
  GhostWork::tell(Work::decoding, x.size());
}

void GhostCodec::encode_with_feedback(Slice<float> x, Slice<float>, const compress::Key& key, compress::Bytes& payload,
                                      bool) const {
  GhostWork::tell(Work::adding, x.size_bytes());
  encode(x, key, payload);
  GhostWork::tell(Work::decoding, x.size());
}

void GhostCodec::decode(Slice<const std::byte>, Slice<float> x) const {
  GhostWork::tell(Work::decoding, x.size());
}

void GhostCodec::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const compress::Key& key,
                                   compress::Bytes& sum) const {
  decode(payload, x);
  encode(x, key, sum);
}

}  // namespace laconic::dist
