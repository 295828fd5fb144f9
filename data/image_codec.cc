#include "data/image_codec.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "data/input_file.h"

namespace laconic {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::uint32_t big_endian(Bytes bytes, std::size_t at, int count) {
  std::uint32_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | bytes[at + static_cast<std::size_t>(i)];
  return value;
}

constexpr const char* kCut = ". The download was cut; fetch it again.";
constexpr const char* kDamaged = ". The file is damaged; fetch it again.";

void require_readable(std::uint64_t bytes, const std::string& name) {
  require<DataError>(bytes <= kMostFileBytes, name, " has ", grouped(bytes), " bytes, more than the ",
                     grouped(kMostFileBytes), " that are read. Make it smaller.");
}

/// The pixels take at least `least_bytes`, or the header lies.
void check_size(const ImageHeader& h, std::uint64_t least_bytes, Bytes file, const std::string& name) {
  require<DataError>(h.width > 0 && h.height > 0, name, " is ", h.width, " x ", h.height, " pixels by its header",
                     kDamaged);
  require<DataError>(std::int64_t{h.width} * h.height <= kMostPixels, name, " is ", h.width, " x ", h.height,
                     " pixels by its header, more than the ", grouped(static_cast<std::uint64_t>(kMostPixels)),
                     " that are read. Make it smaller.");
  require<DataError>(least_bytes <= file.size(), name, " is ", h.width, " x ", h.height,
                     " pixels by its header, which ", grouped(file.size()), " bytes cannot hold", kCut);
}

constexpr std::uint8_t kJpegStart[] = {0xFF, 0xD8, 0xFF};
constexpr std::uint8_t kPngStart[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t n>
bool starts_with(Bytes file, const std::uint8_t (&start)[n]) {
  return file.size() >= n && std::memcmp(file.data(), start, n) == 0;
}

/// A segment of Huffman tables: [kind : u8 | 16 counts of codes by length | a byte for each code], again and again.
/// Not more than 256 codes are in one: older versions of stb_image do not look.
void check_huffman_tables(Bytes segment, const std::string& name) {
  for (std::size_t at = 0; at < segment.size();) {
    std::size_t codes = 0;
    for (std::size_t i = 1; i <= 16 && at + i < segment.size(); ++i) codes += segment[at + i];
    at += 17 + codes;
    require<DataError>(codes <= 256 && at <= segment.size(), name, " has a table of codes that is none", kDamaged);
  }
}

/// ITU T.81: segments [0xFF | marker | length : u16, big-endian | …]; after scans there is data in which 0xFF begins no
/// marker; 0xFF 0xD9 ends the file. What stands between segments is passed over, as decoders do. Each scan costs a
/// pass over the picture: there must not be too many.
ImageHeader jpeg_header(Bytes file, const std::string& name) {
  constexpr int kMostScans = 100;
  ImageHeader h;
  int scans = 0;
  for (std::size_t at = 2;;) {
    const void* next = std::memchr(file.data() + at, 0xFF, file.size() - at);
    at = next ? static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - file.data()) : file.size();
    while (at < file.size() && file[at] == 0xFF) ++at;
    require<DataError>(at < file.size(), name, " ends in the middle", kCut);
    const int marker = file[at++];
    if (marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD7)) continue;  // no length
    require<DataError>(marker == 0xD9 || at + 2 <= file.size(), name, " ends in the middle", kCut);
    require<DataError>(h.width > 0 || (marker != 0xD9 && marker != 0xDA), name, " has no size in its header", kDamaged);
    if (marker == 0xD9) break;
    const std::size_t length = big_endian(file, at, 2);
    require<DataError>(length >= 2 && at + length <= file.size(), name, " ends in the middle", kCut);
    if (marker == 0xEE && length >= 14 && std::memcmp(file.data() + at + 2, "Adobe", 5) == 0) h.adobe = true;
    if (marker == 0xC4) {
      check_huffman_tables(file.subspan(at + 2, length - 2), name);
    } else if (marker == 0xDA) {
      require<DataError>(++scans <= kMostScans, name, " has more than ", kMostScans,
                         " scans. Convert it to a usual JPEG.");
    } else if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC8 && marker != 0xCC) {
      require<DataError>(length >= 8 && h.width == 0, name, " has no header of a JPEG", kDamaged);
      require<DataError>(marker <= 0xC2 && file[at + 2] == 8, name, " is a JPEG of a rare kind (",
                         marker % 4 == 3 ? "lossless"
                         : marker > 0xC8 ? "arithmetic coding"
                         : marker > 0xC2 ? "hierarchical"
                                         : "not 8 bits",
                         "). Convert it to a baseline or progressive one.");
      h.height = static_cast<int>(big_endian(file, at + 3, 2)), h.width = static_cast<int>(big_endian(file, at + 5, 2));
      h.channels = file[at + 7];
      // A block of 8 x 8 takes at least 1 bit.
      check_size(h, static_cast<std::uint64_t>(h.width) * static_cast<std::uint64_t>(h.height) / 512, file, name);
    }
    at += length;
  }
  return h;
}

/// Chunks [length : u32, big-endian | type : 4 letters | … | crc32 of type and content], IHDR first, IEND last.
/// source: W3C, Portable Network Graphics, sections 5 and 11.2.2
ImageHeader png_header(Bytes file, const std::string& name) {
  ImageHeader h;
  h.format = ImageHeader::Format::png;
  std::size_t at = sizeof kPngStart;
  std::uint64_t row_bytes = 0, data_bytes = 0;
  for (bool first = true;; first = false) {
    require<DataError>(at + 12 <= file.size(), name, " ends in the middle", kCut);
    const std::size_t length = big_endian(file, at, 4);
    require<DataError>(length <= file.size() - at - 12, name, " ends in the middle", kCut);
    const auto is = [&](const char* type) { return std::memcmp(file.data() + at + 4, type, 4) == 0; };
    const auto crc = static_cast<std::uint32_t>(crc32_z(0, file.data() + at + 4, 4 + length));
    require<DataError>(crc == big_endian(file, at + 8 + length, 4), name, " has a wrong checksum at byte ", at,
                       kDamaged);
    require<DataError>(first == is("IHDR") && (!first || length == 13), name, " has no header of a PNG", kDamaged);
    if (first) {
      const std::uint32_t width = big_endian(file, at + 8, 4), height = big_endian(file, at + 12, 4);
      const int depth = file[at + 16], color = file[at + 17];
      h.width = static_cast<int>(std::min(width, 0x7FFFFFFFu)),
      h.height = static_cast<int>(std::min(height, 0x7FFFFFFFu));
      require<DataError>(color <= 6 && depth <= 16, name, " has no header of a PNG", kDamaged);
      h.channels = (color & 1 ? 1 : color & 2 ? 3 : 1) + (color & 4 ? 1 : 0);
      row_bytes = (std::uint64_t{width} * static_cast<std::uint64_t>(h.channels * depth) + 7) / 8 + 1;
    }
    if (is("IDAT")) data_bytes += length;
    if (is("IEND")) break;
    at += 12 + length;
  }
  check_size(h, 0, file, name);
  // Deflate makes no more than 1032 bytes of one.
  require<DataError>(row_bytes * static_cast<std::uint64_t>(h.height) / 1032 <= data_bytes + 64, name, " is ", h.width,
                     " x ", h.height, " pixels by its header, which its data cannot hold", kDamaged);
  return h;
}

/// "P6", width, height, 255, each after white space or comments, one white space, then the pixels.
ImageHeader ppm_header(Bytes file, const std::string& name) {
  ImageHeader h;
  h.format = ImageHeader::Format::ppm;
  h.channels = 3;
  std::size_t at = 2;
  const auto blank = [&] { return at < file.size() && (file[at] == ' ' || (file[at] >= '\t' && file[at] <= '\r')); };
  const auto number = [&] {
    while (blank() || (at < file.size() && file[at] == '#')) {
      const bool comment = file[at] == '#';
      do ++at;
      while (comment && at < file.size() && file[at] != '\n');
    }
    int value = 0, digits = 0;
    for (; at < file.size() && file[at] >= '0' && file[at] <= '9' && digits < 8; ++at, ++digits)
      value = 10 * value + (file[at] - '0');
    return value;
  };
  h.width = number(), h.height = number();
  const int most = number();
  require<DataError>(most == 255 && blank(), name, " has a header of a PPM that is not of 8 bits",
                     ". Convert it to one, or to JPEG.");
  h.pixels_at = at + 1;
  check_size(h, h.pixels_at + 3 * static_cast<std::uint64_t>(h.width) * static_cast<std::uint64_t>(h.height), file,
             name);
  return h;
}

}  // namespace

ImageHeader read_image_header(Bytes file, const std::string& name) {
  require<DataError>(!file.empty(), name, " is empty", kCut);
  require_readable(file.size(), name);
  if (starts_with(file, kJpegStart)) return jpeg_header(file, name);
  if (starts_with(file, kPngStart)) return png_header(file, name);
  if (starts_with(file, {'P', '6'})) return ppm_header(file, name);
  throw DataError(concat(name, " is no JPEG, PNG or PPM. Convert it to JPEG, or take it out of the data."));
}

namespace {

/// The same JPEG with Adobe's marker behind its first two bytes: without it stb_image takes four channels for YCbCr and
/// alpha, as no other decoder does.
std::vector<std::uint8_t> marked_as_cmyk(Bytes file) {
  constexpr std::uint8_t kMarker[] = {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};
  std::vector<std::uint8_t> marked(file.begin(), file.begin() + 2);
  marked.insert(marked.end(), std::begin(kMarker), std::end(kMarker));
  marked.insert(marked.end(), file.begin() + 2, file.end());
  return marked;
}

}  // namespace

JpegDecoder default_jpeg_decoder() { return has_libjpeg() ? JpegDecoder::libjpeg : JpegDecoder::stb; }
const char* to_string(JpegDecoder decoder) { return decoder == JpegDecoder::libjpeg ? "libjpeg" : "stb"; }

void decode_image(Bytes file, const ImageHeader& header, const std::string& name, const Region& wanted, int most_scale,
                  JpegDecoder decoder, Image& image) {
  if (header.format == ImageHeader::Format::ppm) {
    image.width = header.width, image.height = header.height, image.scale = 1;
    image.resize({0, 0, header.width, header.height});
    std::memcpy(image.pixels.data(), file.data() + header.pixels_at, image.pixels.size() - Image::kSlack);
    return;
  }
  const bool jpeg = header.format == ImageHeader::Format::jpeg;
  if (jpeg && decoder == JpegDecoder::libjpeg)
    decode_with_libjpeg(file, name, wanted, most_scale, image);
  else if (jpeg && header.channels == 4 && !header.adobe)
    decode_with_stb(marked_as_cmyk(file), name, image);
  else
    decode_with_stb(file, name, image);
  const auto reduced = [&](int size) { return (size + image.scale - 1) / image.scale; };
  require<DataError>(image.width == reduced(header.width) && image.height == reduced(header.height), name, " is ",
                     image.width, " x ", image.height, " pixels, but ", header.width, " x ", header.height,
                     " by its header", kDamaged);
}

Image decode_image(Bytes file, const std::string& name, JpegDecoder decoder) {
  Image image;
  const ImageHeader header = read_image_header(file, name);
  decode_image(file, header, name, {0, 0, header.width, header.height}, 1, decoder, image);
  return image;
}

#ifndef LACONIC_LIBJPEG  // else data/decode_libjpeg.cc is built
bool has_libjpeg() { return false; }

void decode_with_libjpeg(Bytes, const std::string& name, const Region&, int, Image&) {
  throw Error(concat(name, ": this build has no libjpeg. Decode with stb_image."));
}
#endif

void read_image_file(const std::string& path, std::vector<std::uint8_t>& bytes) {
  const RandomAccessFile file(path);
  require_readable(file.size(), path);
  bytes.resize(file.size());
  file.read(0, file.size(), bytes.data());
}

}  // namespace laconic
