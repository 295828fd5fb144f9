#include "compress/codec_traits.h"

namespace laconic::compress {

CodecTraits traits_of(const std::string& codec) {
  const std::string name = codec.substr(0, codec.find(':'));
  if (name == "none" || name == "identity" || name == "snappy" || name == "lz4") return {.loses = false};
  if (name == "inceptionn" || name == "inceptionn-published" || name == "trunc" || name == "terngrad")
    return {.bears_weights = false};
  if (name == "onebit") return {.bears_weights = false, .remembers = true};
  return {};
}

}  // namespace laconic::compress
