#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// A rectangle of whole pixels.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Region&) const = default;
};

/// Pixels of a photograph in memory, or of the part of one that was asked for: u8 [height, width, 3], red, green, blue,
/// row-major. Coordinates are of the whole picture, of which this is `part`; reduced by `scale` where it was
/// decoded so (data/image_codec.h). Buffers are kept when an object is used again.
struct Image {
  int width = 0, height = 0;         ///< the whole picture's size / scale, rounded up
  int scale = 1;                     ///< 1, 2, 4 or 8
  Region part;                       ///< what `pixels` holds
  std::vector<std::uint8_t> pixels;  ///< part.height * part.width * 3 and kSlack bytes that nobody looks at

  static constexpr int kSlack = 1;  ///< so that a pixel can be fetched as four bytes
  void resize(const Region& region) {
    part = region;
    pixels.resize(static_cast<std::size_t>(region.width) * static_cast<std::size_t>(region.height) * 3 + kSlack);
  }
  /// Pixel (x, y) of the whole picture; it must lie in `part`.
  const std::uint8_t* at(int x, int y) const {
    return pixels.data() + (static_cast<std::size_t>(y - part.y) * static_cast<std::size_t>(part.width) +
                            static_cast<std::size_t>(x - part.x)) *
                               3;
  }
  std::uint8_t* at(int x, int y) { return const_cast<std::uint8_t*>(std::as_const(*this).at(x, y)); }
};

/// What a file of an image says of itself before its pixels.
struct ImageHeader {
  enum class Format { jpeg, png, ppm } format = Format::jpeg;
  int width = 0, height = 0;
  int channels = 0;           ///< channels as stored: 1 grey, 3 colour, 4 CMYK or with alpha, …
  bool adobe = false;         ///< jpeg: whether Adobe's marker says which colours the channels are
  std::size_t pixels_at = 0;  ///< ppm: where they begin
};

/// The largest picture that is decoded, in pixels (67 million, 201 MB decoded), and the longest file, in bytes.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 28;

/// Reads the header of a JPEG (baseline or progressive, 8 bits), PNG or binary PPM (P6, 8 bits), told apart by their
/// first bytes, never by a name, and checks what can be checked without decoding: that the file is whole (a JPEG's end
/// mark is there, every chunk of a PNG has its length and checksum), not larger than kMostPixels, and that its header
/// does not promise more pixels than so few bytes can hold, so that a hostile one costs no memory.
/// Cost: one pass over the bytes of a PNG, less for the others.
/// throws DataError, which begins with `name`: what is wrong, and what to do
ImageHeader read_image_header(std::span<const std::uint8_t> file, const std::string& name);

/// The decoders of JPEG. libjpeg (libjpeg-turbo's own interface) is faster, but a build may lack it; stb_image is
/// always there, and decodes PNG in any case. Their pixels differ by a few grey levels.
enum class JpegDecoder { stb, libjpeg };
bool has_libjpeg();
/// libjpeg if this build has it.
JpegDecoder default_jpeg_decoder();
const char* to_string(JpegDecoder decoder);  ///< "stb", "libjpeg"

/// Decodes at least `wanted` (of the whole picture, at full size) to RGB; `image.part` says what was decoded, and
/// `image` keeps its buffer. Grey becomes RGB; CMYK and YCCK are taken as Adobe stores them, inverted, R = C K / 255;
/// alpha is dropped; of 16 bits the upper 8 count; EXIF, orientation included, is not looked at: what PIL's
/// convert("RGB") gives, and so torchvision's loader (but PIL clips grey of 16 bits at 255).
///
/// `most_scale` is 1, 2, 4 or 8. Above 1 libjpeg may decode at up to that fraction of the size, by a smaller inverse
/// DCT: image.scale says at which, and image.part is in pixels of the reduced picture. stb_image always decodes all.
/// Memory: 3 bytes a decoded pixel; of a progressive JPEG also 6 for each of the whole picture, at most 1 GiB.
/// throws DataError, which begins with `name`: the file is damaged, or of a kind that is not supported
void decode_image(std::span<const std::uint8_t> file, const ImageHeader& header, const std::string& name,
                  const Region& wanted, int most_scale, JpegDecoder decoder, Image& image);

/// All of it at full size.
Image decode_image(std::span<const std::uint8_t> file, const std::string& name,
                   JpegDecoder decoder = default_jpeg_decoder());

/// The bytes of a whole file. throws DataError: it cannot be read, is a folder, or longer than kMostFileBytes
void read_image_file(const std::string& path, std::vector<std::uint8_t>& bytes);

/// A picture as JPEG by stb_image_write.   pixels : u8 [height, width, 3]   quality : 1 … 100
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, int width, int height, int quality);

// The libraries behind them, for headers that have been checked.

/// JPEG and PNG by stb_image, whole, to RGB. throws DataError with `name` and stb_image's reason
void decode_with_stb(std::span<const std::uint8_t> file, const std::string& name, Image& image);

/// JPEG by libjpeg: `wanted` of the full-size picture, at 1/most_scale of its size, or at all of it where colours have
/// less than a quarter of the pixels. throws DataError with libjpeg's reason
void decode_with_libjpeg(std::span<const std::uint8_t> file, const std::string& name, const Region& wanted,
                         int most_scale, Image& image);

}  // namespace laconic
