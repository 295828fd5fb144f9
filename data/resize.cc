#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/simd.h"
#include "core/base/error.h"

namespace laconic {
namespace {

using Taps = ResizeBuffers::Taps;

constexpr int kBits = 22;  // of a weight: the sum of 255 times them stays below 2^31

/// The inputs [first, end) that count for output o of an axis, and the triangle over them.
struct Triangle {
  double center, reach;
  int first, end;

  /// start, extent : of the box.   size : of the picture
  Triangle(double start, double extent, int outputs, int size, int o) {
    const double scale = extent / outputs;
    center = start + (o + 0.5) * scale;
    reach = std::max(1.0, scale);
    const int low = std::max(0, static_cast<int>(std::floor(start)));
    const int high = std::min(size, static_cast<int>(std::ceil(start + extent)));
    first = std::clamp(static_cast<int>(center - reach + 0.5), low, high - 1);
    end = std::clamp(static_cast<int>(center + reach + 0.5), first + 1, high);
  }
  double operator()(int i) const { return std::max(0.0, 1 - std::abs((i + 0.5 - center) / reach)); }
};

void fill(Taps& taps, double start, double extent, int outputs, int size, int from, int count) {
  taps.first.resize(static_cast<std::size_t>(count));
  taps.count.resize(static_cast<std::size_t>(count));
  taps.most = static_cast<int>(std::ceil(std::max(1.0, extent / outputs))) * 2 + 1;
  taps.weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps.most), 0);
  for (int o = 0; o < count; ++o) {
    const Triangle triangle(start, extent, outputs, size, from + o);
    double sum = 0;
    for (int i = triangle.first; i < triangle.end; ++i) sum += triangle(i);
    std::int32_t* weights = taps.weights.data() + static_cast<std::size_t>(o) * static_cast<std::size_t>(taps.most);
    for (int i = triangle.first; i < triangle.end; ++i)
      *weights++ = sum > 0 ? static_cast<std::int32_t>(0.5 + triangle(i) / sum * (1 << kBits)) : 1 << kBits;
    taps.first[static_cast<std::size_t>(o)] = triangle.first;
    taps.count[static_cast<std::size_t>(o)] = triangle.end - triangle.first;
  }
}

// A pixel is four numbers of which the last is nobody's: it is read from the next one, and written over by it.
typedef std::int32_t Four __attribute__((vector_size(16)));
typedef std::uint8_t FourBytes __attribute__((vector_size(4)));
typedef std::int32_t Sixteen __attribute__((vector_size(64)));
typedef std::uint8_t SixteenBytes __attribute__((vector_size(16)));

/// One row. in : from the pixel that taps.first counts from
LACONIC_MULTIVERSION void resize_across(const std::uint8_t* in, const int* first, const int* count,
                                        const std::int32_t* weights, int most, int outputs, std::uint8_t* out) {
  for (int o = 0; o < outputs; ++o, weights += most, out += 3) {
    const std::uint8_t* p = in + 3 * first[o];
    Four sum = {};
    sum += 1 << (kBits - 1);
    for (int k = 0; k < count[o]; ++k, p += 3) {
      FourBytes pixel;
      cpu::load(pixel, p);
      sum += weights[k] * __builtin_convertvector(pixel, Four);
    }
    sum >>= kBits;
    cpu::store(out, __builtin_convertvector(sum, FourBytes));
  }
}

/// out[i] = sum_k weights[k] in[k stride + i], for n bytes
LACONIC_MULTIVERSION void resize_down(const std::uint8_t* in, std::size_t stride, const std::int32_t* weights,
                                      int count, std::size_t n, std::uint8_t* out) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    Sixteen sum = {};
    sum += 1 << (kBits - 1);
    for (int k = 0; k < count; ++k) {
      SixteenBytes row;
      cpu::load(row, in + static_cast<std::size_t>(k) * stride + i);
      sum += weights[k] * __builtin_convertvector(row, Sixteen);
    }
    sum >>= kBits;
    cpu::store(out + i, __builtin_convertvector(sum, SixteenBytes));
  }
  for (; i < n; ++i) {
    std::int32_t sum = 1 << (kBits - 1);
    for (int k = 0; k < count; ++k) sum += weights[k] * in[static_cast<std::size_t>(k) * stride + i];
    out[i] = static_cast<std::uint8_t>(sum >> kBits);
  }
}

}  // namespace

Region Resizing::source(int picture_width, int picture_height) const {
  const auto axis = [](double start, double extent, int outputs, int size, int from, int count) {
    return std::pair{Triangle(start, extent, outputs, size, from).first,
                     Triangle(start, extent, outputs, size, from + count - 1).end};
  };
  const auto [left, right] = axis(box.x, box.width, width, picture_width, window.x, window.width);
  const auto [top, bottom] = axis(box.y, box.height, height, picture_height, window.y, window.height);
  return {left, top, right - left, bottom - top};
}

void resize(const Image& picture, const Resizing& r, ResizeBuffers& buffers, std::uint8_t* out) {
  const Region need = r.source(picture.width, picture.height), have = picture.part;
  require<ShapeError>(need.x >= have.x && need.y >= have.y && need.x + need.width <= have.x + have.width &&
                          need.y + need.height <= have.y + have.height,
                      "resize: a part of ", have.width, " x ", have.height, " pixels of the picture does not hold the ",
                      need.width, " x ", need.height, " that are needed.");
  fill(buffers.across, r.box.x, r.box.width, r.width, picture.width, r.window.x, r.window.width);
  fill(buffers.down, r.box.y, r.box.height, r.height, picture.height, r.window.y, r.window.height);
  const std::size_t row_bytes = static_cast<std::size_t>(r.window.width) * 3;
  buffers.rows.resize(static_cast<std::size_t>(need.height) * row_bytes + Image::kSlack);
  for (int& first : buffers.across.first) first -= have.x;
  for (int y = 0; y < need.height; ++y)
    resize_across(picture.at(have.x, need.y + y), buffers.across.first.data(), buffers.across.count.data(),
                  buffers.across.weights.data(), buffers.across.most, r.window.width,
                  buffers.rows.data() + static_cast<std::size_t>(y) * row_bytes);
  for (int y = 0; y < r.window.height; ++y) {
    const auto o = static_cast<std::size_t>(y);
    resize_down(buffers.rows.data() + static_cast<std::size_t>(buffers.down.first[o] - need.y) * row_bytes, row_bytes,
                buffers.down.weights.data() + o * static_cast<std::size_t>(buffers.down.most), buffers.down.count[o],
                row_bytes, out + o * row_bytes);
  }
}

}  // namespace laconic
