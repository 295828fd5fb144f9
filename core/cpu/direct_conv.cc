#include <algorithm>

#include "core/base/parallel.h"
#include "core/cpu/convolutions.h"
#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"

namespace laconic::cpu {
namespace {

// Integers, so that products are compiled once for all steps.
constexpr std::int64_t kSame = 0, kNext = 1;

/// Images [count][h][w][c].
struct Images {
  std::int64_t count, h, w, c;
  std::int64_t row() const { return w * c; }
  std::int64_t size() const { return h * row(); }
};

/// Rows of an image with `pad` zeros left and right of each: where there are none, the image itself.
struct Padded {
  std::int64_t zeros, row, size;
  Padded(const Images& x, std::int64_t pad)
      : zeros(pad * x.c), row(x.row() + 2 * zeros), size(pad == 0 ? 0 : x.h * row) {}
  /// `copy`, of `size` floats, holds the result where it is one.
  const float* of(const float* image, const Images& x, float* copy) const {
    if (size == 0) return image;
    for (std::int64_t i = 0; i < x.h; ++i) {
      float* const to = copy + i * row;
      std::fill_n(to, zeros, 0.0f);
      std::copy_n(image + i * x.row(), x.row(), to + zeros);
      std::fill_n(to + zeros + x.row(), zeros, 0.0f);
    }
    return copy;
  }
};

/// Panels of kWide columns that hold all.
template <int kWide>
std::int64_t panels_of(std::int64_t columns) {
  return (columns + kWide - 1) / kWide;
}

/// The kernels as a convolution from `in` to `out` channels reads them: w(out, in, row, column). The forward pass has
/// out = o, in = c; the data's gradient out = c, in = o, rotated.
struct Kernels {
  const float* w;  ///< [O][C][h][w]
  std::int64_t out, in, h, wide;
  bool rotated;
  float operator()(std::int64_t o, std::int64_t i, std::int64_t row, std::int64_t column) const {
    return rotated ? w[((i * out + o) * h + h - 1 - row) * wide + wide - 1 - column]
                   : w[((o * in + i) * h + row) * wide + column];
  }
};

/// u [panels][row][column][in][kWide] = the kernels, zero for channels that do not exist.
template <int kWide>
void pack(float* u, const Kernels& k) {
  for (std::int64_t first = 0; first < k.out; first += kWide)
    for (std::int64_t row = 0; row < k.h; ++row)
      for (std::int64_t column = 0; column < k.wide; ++column)
        for (std::int64_t i = 0; i < k.in; ++i, u += kWide)
          for (std::int64_t o = 0; o < kWide; ++o) u[o] = first + o < k.out ? k(first + o, i, row, column) : 0.0f;
}

/// y [pixels][columns] = m [panels][pixels][kWide] + bias [panels][kWide], cut off below 0 with relu.
template <int kWide>
LACONIC_INLINE void write_pixels(float* y, const float* m, std::int64_t pixels, std::int64_t columns,
                                 const float* bias, bool relu) {
  constexpr std::int64_t kLanes = sizeof(HalfLanes) / sizeof(float);
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      HalfLanes v, offset;
      load(v, m + (c / kWide * pixels + p) * kWide + c % kWide), load(offset, bias + c);
      v += offset;
      if (relu) v = v < 0.0f ? HalfLanes{} : v;
      float* const to = y + p * columns + c;
      if (const std::int64_t left = (pixels - p) * columns - c; left >= kLanes)
        store(to, v);  // the next pixel overwrites what lies beyond the last column
      else
        for (std::int64_t l = 0; l < left; ++l) to[l] = v[l];
    }
}

/// y = x convolved with the kernels, with zeros around x.
template <int kWide>
void convolve(float* y, const Images& out, const float* x, const Images& in, const Kernels& kernels, const float* b,
              bool relu, std::int64_t pad_rows, std::int64_t pad_columns) {
  const std::int64_t panels = panels_of<kWide>(out.c), taps = kernels.wide * in.c, rows = out.count * out.h,
                     parts = std::min<std::int64_t>(kernel_threads(), rows);
  const Padded padded(in, pad_columns);
  const std::int64_t of_kernels = panels * kernels.h * taps * kWide, of_part = padded.size + panels * out.w * kWide;
  float* const u = kernel_scratch(static_cast<std::size_t>(of_kernels + panels * kWide + parts * of_part));
  float* const bias = u + of_kernels;
  pack<kWide>(u, kernels);
  for (std::int64_t o = 0; o < panels * kWide; ++o) bias[o] = b && o < out.c ? b[o] : 0.0f;
  in_parts(parts, [&](std::int64_t part) {
    float* const copy = bias + panels * kWide + part * of_part;
    float* const m = copy + padded.size;
    with_vectors([&]<class Isa>() {
      std::int64_t held = -1;
      const float* image = nullptr;
      for (std::int64_t i = rows * part / parts; i < rows * (part + 1) / parts; ++i) {
        const std::int64_t n = i / out.h, top = i % out.h - pad_rows;
        if (n != held) image = padded.of(x + n * in.size(), in, copy), held = n;
        const std::int64_t first = std::max<std::int64_t>(0, -top), last = std::min(kernels.h, in.h - top);
        product<kWide, Isa>({m, out.w * kWide}, false, image + (top + first) * padded.row, padded.row, kNext, in.c,
                            {u + first * taps * kWide, kernels.h * taps * kWide}, panels, last - first, taps, out.w);
        write_pixels<kWide>(y + i * out.row(), m, out.w, out.c, bias, relu);
      }
    });
  });
}

/// u [panels][pixels][kWide] = an image's pixels, zero for channels that do not exist.
template <int kWide>
LACONIC_INLINE void read_pixels(float* u, const float* image, std::int64_t pixels, std::int64_t columns) {
  for (std::int64_t first = 0; first < columns; first += kWide)
    for (std::int64_t p = 0; p < pixels; ++p, u += kWide)
      for (std::int64_t c = 0; c < kWide; ++c) u[c] = first + c < columns ? image[p * columns + first + c] : 0.0f;
}

template <int kWide>
void gradient_of_kernels(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                         const ConvSizes& s) {
  const Images in{s.n, s.h, s.w, s.c}, out{s.n, s.oh, s.ow, s.out};
  const std::int64_t panels = panels_of<kWide>(s.out), taps = s.kw * s.c, pixels = s.oh * s.ow;
  // Sums of a chunk of images, short enough for rounding to stay small; then the sums of all chunks, in order.
  constexpr std::int64_t kTerms = 8192, kImages = 8, kLeastChunks = 4, kMostFloats = 2 << 20;
  const std::int64_t of_panel = s.kh * taps * kWide, of_chunk = panels * (of_panel + kWide);
  const std::int64_t most_chunks = std::max(kLeastChunks, kMostFloats / of_chunk);
  const std::int64_t images = std::max<std::int64_t>(
      {1, std::min({kTerms / pixels, kImages, s.n / kLeastChunks}), (s.n + most_chunks - 1) / most_chunks});
  const std::int64_t chunks = (s.n + images - 1) / images, parts = std::min<std::int64_t>(kernel_threads(), chunks);
  const Padded padded(in, s.pad);
  const bool as_it_lies = s.out == kWide;
  const std::int64_t of_part = padded.size + (as_it_lies ? 0 : panels * pixels * kWide);
  float* const sums = kernel_scratch(static_cast<std::size_t>(chunks * of_chunk + parts * of_part));
  in_parts(parts, [&](std::int64_t part) {
    float* const copy = sums + chunks * of_chunk + part * of_part;
    with_vectors([&]<class Isa>() {
      for (std::int64_t chunk = chunks * part / parts; chunk < chunks * (part + 1) / parts; ++chunk) {
        float* const of_w = sums + chunk * of_chunk;
        float* const of_b = of_w + panels * of_panel;
        std::fill_n(of_w, of_chunk, 0.0f);
        for (std::int64_t n = chunk * images; n < std::min(s.n, (chunk + 1) * images); ++n) {
          const float* const image = padded.of(x + n * in.size(), in, copy);
          float* u = const_cast<float*>(dy) + n * out.size();  // it is only read
          if (!as_it_lies) read_pixels<kWide>(copy + padded.size, u, pixels, s.out), u = copy + padded.size;
          for (std::int64_t r = 0; r < s.kh; ++r) {
            const std::int64_t first = std::max<std::int64_t>(0, s.pad - r), last = std::min(s.oh, s.h + s.pad - r);
            product<kWide, Isa>({of_w + r * taps * kWide, of_panel}, true, image + (first - s.pad + r) * padded.row,
                                padded.row, s.c, kNext, {u + first * s.ow * kWide, pixels * kWide}, panels,
                                last - first, s.ow, taps);
          }
          const float one = 1;
          product<kWide, Isa>({of_b, kWide}, true, &one, 0, kSame, kSame, {u, pixels * kWide}, panels, 1, pixels, 1);
        }
      }
    });
  });
  const auto sum = [&](std::int64_t at) {
    float all = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) all += sums[chunk * of_chunk + at];
    return all;
  };
  for (std::int64_t o = 0; o < s.out; ++o) {
    const std::int64_t panel = o / kWide, column = o % kWide;
    for (std::int64_t c = 0; c < s.c; ++c)
      for (std::int64_t r = 0; r < s.kh; ++r)
        for (std::int64_t q = 0; q < s.kw; ++q, ++dw)
          *dw = (add_dw ? *dw : 0) + sum(panel * of_panel + (r * taps + q * s.c + c) * kWide + column);
    if (db) db[o] = (add_db ? db[o] : 0) + sum(panels * of_panel + o);
  }
}

/// Few columns lie in narrow panels.
bool narrow(std::int64_t columns) { return columns <= 8; }

}  // namespace

bool takes_direct(const ConvSizes& s, Layout input, Layout output) {
  // Few channels, or sums long enough for what comes before and after them not to count.
  constexpr std::int64_t kFew = 16, kMany = 800;
  const std::int64_t taps = s.kh * s.kw;
  const bool few = s.c <= kFew && s.out <= kFew;
  const bool many = taps * std::min(s.c, s.out) >= kMany && s.c % 16 == 0 && s.out % 16 == 0;
  return (few || (taps > 1 && many)) && s.stride == 1 && s.dilation == 1 && s.groups == 1 &&
         s.pad < std::min(s.kh, s.kw) && input == Layout::channels_last && output == Layout::channels_last;
}

void direct_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& s) {
  (narrow(s.out) ? convolve<8> : convolve<16>)(y, {s.n, s.oh, s.ow, s.out}, x, {s.n, s.h, s.w, s.c},
                                               {w, s.out, s.c, s.kh, s.kw, false}, b, relu, s.pad, s.pad);
}

void direct_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& s) {
  (narrow(s.c) ? convolve<8> : convolve<16>)(dx, {s.n, s.h, s.w, s.c}, dy, {s.n, s.oh, s.ow, s.out},
                                             {w, s.c, s.out, s.kh, s.kw, true}, nullptr, false, s.kh - 1 - s.pad,
                                             s.kw - 1 - s.pad);
}

void direct_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                             const ConvSizes& s) {
  (narrow(s.out) ? gradient_of_kernels<8> : gradient_of_kernels<16>)(dw, add_dw, db, add_db, x, dy, s);
}

}  // namespace laconic::cpu
