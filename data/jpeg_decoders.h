#pragma once
#include <span>
#include <string>

#include "data/image.h"

// The libraries behind data/image_codec.h. Headers have been checked before.

namespace laconic {

/// JPEG and PNG by stb_image, whole, to RGB. throws DataError with `name` and stb_image's reason
void decode_with_stb(std::span<const std::uint8_t> file, const std::string& name, Image& image);

/// JPEG by libjpeg: `wanted` of the full-size picture, at 1/scale of its size. throws DataError with libjpeg's reason
void decode_with_libjpeg(std::span<const std::uint8_t> file, const std::string& name, const Region& wanted, int scale,
                         Image& image);

}  // namespace laconic
