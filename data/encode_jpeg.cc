#include "data/image_pack.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace laconic {
namespace {

void append(void* to, void* data, int bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  auto& all = *static_cast<std::vector<std::uint8_t>*>(to);
  all.insert(all.end(), from, from + bytes);
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, int width, int height, int quality) {
  std::vector<std::uint8_t> file;
  stbi_write_jpg_to_func(append, &file, width, height, 3, pixels, quality);
  return file;
}

}  // namespace laconic
