#include <algorithm>

#include "core/base/parallel.h"
#include "core/cpu/convolutions.h"
#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"

namespace laconic::cpu {
namespace {

/// Every stride-th pixel of the rows and columns of channels_last images.
struct Pixels {
  const float* data;
  std::int64_t h, w, c, out_h, out_w, stride;
  const float* operator[](std::int64_t p) const {
    if (stride == 1) return data + p * c;
    const std::int64_t column = p % out_w, row = p / out_w % out_h, image = p / (out_w * out_h);
    return data + ((image * h + row * stride) * w + column * stride) * c;
  }
};

/// Panels of 16 channels, `panel` floats apart: pixels [begin, end) of a block that begins with pixel `first`.
void copy_pixels(float* panels, std::int64_t panel, const Pixels& x, std::int64_t first, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t p = begin; p < end; ++p) {
    const float* const pixel = x[first + p];
    float* to = panels + p * kBlock;
    for (std::int64_t c = 0; c < x.c; c += kBlock, to += panel) std::copy_n(pixel + c, kBlock, to);
  }
}

constexpr std::int64_t kLength = 192;  // pixels of a block: a panel of x and one of dy lie in the nearest cache
constexpr std::int64_t kFew = 32;      // pixels worth a thread of their own

}  // namespace

bool takes_pointwise(const ConvSizes& s, Layout input, Layout output) {
  return s.kh == 1 && s.kw == 1 && s.pad == 0 && s.groups == 1 && s.c % kBlock == 0 && s.out % kBlock == 0 &&
         input == Layout::channels_last && output == Layout::channels_last;
}

void pointwise_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                                const ConvSizes& s) {
  const Pixels in{x, s.h, s.w, s.c, s.oh, s.ow, s.stride}, out{dy, s.oh, s.ow, s.out, s.oh, s.ow, 1};
  const std::int64_t pixels = s.n * s.oh * s.ow, length = std::min(kLength, pixels);
  const std::int64_t c_blocks = s.c / kBlock, o_blocks = s.out / kBlock, square = kBlock * kBlock;
  const std::int64_t panel = (length | 1) * kBlock;  // an even number of cache lines would put all panels into few sets
  float* const sums = kernel_scratch(static_cast<std::size_t>(c_blocks * o_blocks * square + 2 * o_blocks * kBlock +
                                                              (c_blocks + o_blocks) * panel));
  float* const bias = sums + c_blocks * o_blocks * square;  // [o block][sums, and one block of pixels][16]
  float* const of_x = bias + 2 * o_blocks * kBlock;
  float* const of_dy = of_x + c_blocks * panel;
  const std::int64_t parts = std::min<std::int64_t>(kernel_threads(), c_blocks);
  std::fill(bias, of_x, 0.0f);
  std::int64_t first = 0;
  do {  // it runs once where there are no pixels, too
    const std::int64_t count = std::min(length, pixels - first);
    parallel_for(count, kFew, [&](std::int64_t begin, std::int64_t end) {
      copy_pixels(of_x, panel, in, first, begin, end);
      copy_pixels(of_dy, panel, out, first, begin, end);
    });
    in_parts(parts, [&](std::int64_t part) {
      with_vectors([&]<class Isa>() {
        for (std::int64_t b = c_blocks * part / parts; b < c_blocks * (part + 1) / parts; ++b)
          product<kBlock, 1, Isa>({sums + b * o_blocks * square, square}, first > 0, of_x + b * panel, 0,
                                  {of_dy, panel}, o_blocks, 1, count, kBlock);
        for (std::int64_t k = o_blocks * part / parts; db && k < o_blocks * (part + 1) / parts; ++k) {
          float* const sum = bias + 2 * k * kBlock;
          const float one = 1;
          product<0, 0, Isa>({sum + kBlock, kBlock}, false, &one, 0, {of_dy + k * panel, panel}, 1, 1, count, 1);
          for (std::int64_t i = 0; i < kBlock; ++i) sum[i] += sum[kBlock + i];
        }
      });
    });
    first += length;
  } while (first < pixels);
  parallel_for(o_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      for (std::int64_t c0 = 0; c0 < s.c; c0 += kBlock) {
        const float* const tile = sums + (c0 / kBlock * o_blocks + k) * square;
        for (std::int64_t o = 0; o < kBlock; ++o) {
          float* const to = dw + (k * kBlock + o) * s.c + c0;
          for (std::int64_t c = 0; c < kBlock; ++c)
            to[c] = add_dw ? to[c] + tile[c * kBlock + o] : tile[c * kBlock + o];
        }
      }
  });
  for (std::int64_t o = 0; db && o < s.out; ++o) {
    const float sum = bias[2 * (o / kBlock) * kBlock + o % kBlock];
    db[o] = add_db ? db[o] + sum : sum;
  }
}

}  // namespace laconic::cpu
