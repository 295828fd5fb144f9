#include "core/base/error.h"
#include "data/image_codec.h"

namespace laconic {

bool has_libjpeg() { return false; }

void decode_with_libjpeg(std::span<const std::uint8_t>, const std::string& name, const Region&, int, Image&) {
  throw Error(concat(name, ": this build has no libjpeg. Decode with stb_image."));
}

}  // namespace laconic
