#include "dist/engine/ghost_work.h"

#include <algorithm>
#include <cmath>

#include "compress/inceptionn/nic.h"

namespace laconic::dist {

thread_local GhostWork* GhostWork::current = nullptr;

double GhostPayloads::bytes(const compress::Codec& codec, std::size_t elements) const {
  const double payload =
      bits_per_value ? *bits_per_value / 8 * static_cast<double>(elements) : codec.expected_bytes(elements);
  return card_bytes_per_second ? compress::nic_link_bytes(elements, payload, *card_bytes_per_second) : payload;
}

std::size_t GhostCodec::max_bytes(std::size_t elements) const {
  return std::max(real_.max_bytes(elements), static_cast<std::size_t>(std::ceil(expected_bytes(elements))));
}

void GhostCodec::encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const {
  if (!in_card()) GhostWork::tell(Work::encoding, x.size());
  payload.append(std::min(static_cast<std::size_t>(std::llround(expected_bytes(x.size()))), max_bytes(x.size())));
}

void GhostCodec::encode_and_decode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload,
                                   Slice<float>) const {
  encode(x, key, payload);
  tell_decoding(x.size());
}

void GhostCodec::encode_with_feedback(Slice<float> x, Slice<float>, const compress::Key& key, compress::Bytes& payload,
                                      bool) const {
  GhostWork::tell(Work::adding, x.size_bytes());
  encode(x, key, payload);
  tell_decoding(x.size());
}

void GhostCodec::tell_decoding(std::size_t elements) {
  if (!in_card()) GhostWork::tell(Work::decoding, elements);
}

void GhostCodec::decode(Slice<const std::byte>, Slice<float> x) const { tell_decoding(x.size()); }

/// On a core it adds as it decodes. A card gives it plain floats.
void GhostCodec::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  decode(payload, x);
  if (in_card()) GhostWork::tell(Work::adding, x.size_bytes());
}

void GhostCodec::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const compress::Key& key,
                                   compress::Bytes& sum) const {
  decode_add(payload, x);
  encode(x, key, sum);
}

}  // namespace laconic::dist
