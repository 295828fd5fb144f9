#include <algorithm>
#include <csetjmp>

// clang-format off: FILE comes before jpeglib.h, and that before jerror.h
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "core/base/error.h"
#include "data/image_codec.h"

namespace laconic {
namespace {

/// libjpeg knows no exceptions: its error handler leaves by longjmp, over frames that have nothing to destroy.
struct Failure {
  jpeg_error_mgr base;  // first: libjpeg hands out a pointer to it
  std::jmp_buf back;
  char reason[JMSG_LENGTH_MAX];
};

[[noreturn]] void fail(j_common_ptr codec) {
  auto* failure = reinterpret_cast<Failure*>(codec->err);
  codec->err->format_message(codec, failure->reason);
  std::longjmp(failure->back, 1);
}

/// Warnings are passed over, as by PIL, but for the end of the file where pixels should be.
void warn(j_common_ptr codec, int level) {
  if (level < 0 && codec->err->msg_code == JWRN_JPEG_EOF) fail(codec);
}

/// Adobe stores CMYK inverted: R = C K / 255, rounded.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, int pixels) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>((cmyk[c] * cmyk[3] + 127) / 255);
}

/// Whether a part can be decoded at a smaller size. Where colours have less than a quarter of the pixels (4:1:0),
/// libjpeg-turbo reduces them less than brightness, and takes their rows in a part for shorter than they are.
bool can_reduce(const jpeg_decompress_struct& codec) {
  return std::none_of(codec.comp_info, codec.comp_info + codec.num_components, [&](const jpeg_component_info& c) {
    return codec.max_h_samp_factor * codec.max_v_samp_factor > 4 * c.h_samp_factor * c.v_samp_factor;
  });
}

struct Job {
  std::span<const std::uint8_t> file;
  Region wanted;
  int scale;  // at most; then the one it is
  Image& image;
  std::vector<std::uint8_t>& row;  // of CMYK
};

/// No object with a destructor may live in here.
bool decode(Job& job, Failure& failure) {
  jpeg_decompress_struct codec{};
  codec.err = jpeg_std_error(&failure.base);
  failure.base.error_exit = fail;
  failure.base.emit_message = warn;
  if (setjmp(failure.back)) {
    jpeg_destroy_decompress(&codec);
    return false;
  }
  jpeg_create_decompress(&codec);
  codec.mem->max_memory_to_use = 1L << 30;
  jpeg_mem_src(&codec, job.file.data(), job.file.size());
  jpeg_read_header(&codec, TRUE);
  const bool cmyk = codec.num_components == 4;
  codec.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  if (!can_reduce(codec)) job.scale = 1;
  codec.scale_num = 1;
  codec.scale_denom = static_cast<unsigned>(job.scale);
  jpeg_start_decompress(&codec);

  Image& image = job.image;
  image.width = static_cast<int>(codec.output_width), image.height = static_cast<int>(codec.output_height);
  image.scale = job.scale;
  // What lies at a cut's edge is interpolated from what lies beyond: a block more on each side keeps the bits of a
  // whole decoding. libjpeg moves the left edge to one of its blocks.
  const int margin = codec.max_h_samp_factor * 8;
  const Region& w = job.wanted;
  const auto down = [&](int v) { return v / job.scale; };
  const auto up = [&](int v) { return (v + job.scale - 1) / job.scale; };
  const int left = std::max(0, down(w.x) - margin), right = std::min(image.width, up(w.x + w.width) + margin);
  const int top = std::max(0, down(w.y)), bottom = std::min(image.height, up(w.y + w.height));
  JDIMENSION x = static_cast<JDIMENSION>(left), width = static_cast<JDIMENSION>(right - left);
  if (right - left < image.width) jpeg_crop_scanline(&codec, &x, &width);
  image.resize({static_cast<int>(x), top, static_cast<int>(width), bottom - top});
  if (cmyk) job.row.resize(std::size_t{4} * width);
  if (top > 0) jpeg_skip_scanlines(&codec, static_cast<JDIMENSION>(top));
  for (int y = top; y < bottom; ++y) {
    std::uint8_t* to = image.at(image.part.x, y);
    JSAMPROW row = cmyk ? job.row.data() : to;
    if (jpeg_read_scanlines(&codec, &row, 1) != 1) break;  // does not happen with all of a file in memory
    if (cmyk) cmyk_to_rgb(row, to, image.part.width);
  }
  jpeg_destroy_decompress(&codec);
  return true;
}

}  // namespace

bool has_libjpeg() { return true; }

void decode_with_libjpeg(std::span<const std::uint8_t> file, const std::string& name, const Region& wanted,
                         int most_scale, Image& image) {
  std::vector<std::uint8_t> row;
  Failure failure;
  Job job{file, wanted, most_scale, image, row};
  require<DataError>(decode(job, failure), name, " cannot be decoded (libjpeg: ", failure.reason,
                     "). The file is damaged, or of a kind that is not supported; fetch or convert it again.");
}

}  // namespace laconic
