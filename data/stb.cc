#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "data/image_codec.h"

namespace {

/// stb_image sizes its buffers by what a file says: none is larger than the largest picture with alpha and 16 bits.
/// They are zeroed, because a file may name tables that it does not have.
constexpr std::size_t kMostBytes = std::size_t{8} * static_cast<std::size_t>(laconic::kMostPixels);
void* allocate(std::size_t bytes) { return bytes > kMostBytes ? nullptr : std::calloc(1, bytes); }
void* reallocate(void* old, std::size_t bytes) { return bytes > kMostBytes ? nullptr : std::realloc(old, bytes); }

/// A row of colours at half the width, doubled: each value's neighbour counts a quarter. stb_image's own function of
/// this name takes the last value for that neighbour in the last column but one.
unsigned char* stbi__resample_row_h_2(unsigned char* out, unsigned char* in, unsigned char*, int width, int) {
  for (int i = 0; i < width; ++i) {
    out[2 * i] = static_cast<unsigned char>((3 * in[i] + in[std::max(i - 1, 0)] + 2) / 4);
    out[2 * i + 1] = static_cast<unsigned char>((3 * in[i] + in[std::min(i + 1, width - 1)] + 2) / 4);
  }
  return out;
}

}  // namespace

// The definition in stb_image gets another name. Where that header takes the function's address, no bracket follows, so
// that the one above is taken.
#define stbi__resample_row_h_2(...) stbi__resample_row_h_2_replaced(__VA_ARGS__)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536
#define STBI_ASSERT(condition) ((void)0)  // a damaged file is to be refused, not to end the program
#define STBI_MALLOC(bytes) allocate(bytes)
#define STBI_REALLOC(old, bytes) reallocate(old, bytes)
#define STBI_FREE(old) std::free(old)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace laconic {

void decode_with_stb(std::span<const std::uint8_t> file, const std::string& name, Image& image) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&std::free)> pixels(
      stbi_load_from_memory(file.data(), static_cast<int>(file.size()), &width, &height, &channels, 3), &std::free);
  require<DataError>(pixels != nullptr, name, " cannot be decoded (stb_image: ", stbi_failure_reason(),
                     "). The file is damaged, or of a kind that is not supported; fetch or convert it again.");
  image.width = width, image.height = height, image.scale = 1;
  image.resize({0, 0, width, height});
  std::memcpy(image.pixels.data(), pixels.get(), image.pixels.size() - Image::kSlack);
}

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, int width, int height, int quality) {
  std::vector<std::uint8_t> file;
  const auto append = [](void* to, void* data, int bytes) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    auto& all = *static_cast<std::vector<std::uint8_t>*>(to);
    all.insert(all.end(), from, from + bytes);
  };
  stbi_write_jpg_to_func(append, &file, width, height, 3, pixels, quality);
  return file;
}

}  // namespace laconic
