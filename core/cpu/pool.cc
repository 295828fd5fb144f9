#include "core/cpu/pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

// Small vectors of the compiler: the same code for every instruction set. Only as locals, never passed by value, since
// how they are passed depends on the instruction set.
template <int V>
struct Lanes {
  typedef float F __attribute__((vector_size(V * 4)));
  typedef std::int32_t I __attribute__((vector_size(V * 4)));
  typedef std::uint8_t B __attribute__((vector_size(V)));
};

#define LACONIC_INLINE inline __attribute__((always_inline))

/// Unaligned moves.
template <class Vector>
LACONIC_INLINE void load(Vector& v, const void* from) {
  __builtin_memcpy(&v, from, sizeof v);
}
template <class Vector>
LACONIC_INLINE void store(void* to, const Vector& v) {
  __builtin_memcpy(to, &v, sizeof v);
}

/// The part of a window that is inside the image.
struct Inside {
  int h0, h1, w0, w1;
};

template <int V>
LACONIC_INLINE void max_lanes(float* y, std::uint8_t* index, const float* x, std::int64_t row, std::int64_t pixel,
                              int kernel, Inside in) {
  using L = Lanes<V>;
  typename L::F best, v;
  load(best, x + in.h0 * row + in.w0 * pixel);
  typename L::I at = typename L::I{} + (in.h0 * kernel + in.w0);
  for (int i = in.h0; i < in.h1; ++i)
    for (int j = in.w0; j < in.w1; ++j) {
      load(v, x + i * row + j * pixel);
      const auto better = (v > best) | (v != v);
      best = better ? v : best;
      at = better ? typename L::I{} + (i * kernel + j) : at;
    }
  store(y, best);
  if (index) store(index, __builtin_convertvector(at, typename L::B));
}

LACONIC_INLINE void max_one(float* y, std::uint8_t* index, const float* x, std::int64_t row, std::int64_t pixel,
                            int kernel, Inside in) {
  float best = x[in.h0 * row + in.w0 * pixel];
  int at = in.h0 * kernel + in.w0;
  for (int i = in.h0; i < in.h1; ++i)
    for (int j = in.w0; j < in.w1; ++j) {
      const float v = x[i * row + j * pixel];
      if (v > best || v != v) best = v, at = i * kernel + j;
    }
  *y = best;
  if (index) *index = static_cast<std::uint8_t>(at);
}

/// All channels of one output pixel. A last part of fewer than 8 channels is also done 8 at a time where that stays
/// inside x and inside this output row: what spills over is written again by the next pixel.
LACONIC_INLINE void max_pixel(float* y, std::uint8_t* index, const float* x, std::int64_t row, std::int64_t width,
                              int kernel, Inside in, const float* x_end, const float* y_row_end) {
  std::int64_t c = 0;
  for (; c + 16 <= width; c += 16) max_lanes<16>(y + c, index ? index + c : nullptr, x + c, row, width, kernel, in);
  const std::int64_t last = (in.h1 - 1) * row + (in.w1 - 1) * width + 8;
  for (; c < width && x + c + last <= x_end && y + c + 8 <= y_row_end; c += 8)
    max_lanes<8>(y + c, index ? index + c : nullptr, x + c, row, width, kernel, in);
  for (; c < width; ++c) max_one(y + c, index ? index + c : nullptr, x + c, row, width, kernel, in);
}

LACONIC_MULTIVERSION void max_forward_part(float* y, std::uint8_t* index, const float* x, const PoolShape s,
                                           std::int64_t images, const float* x_end) {
  const std::int64_t row = s.w * s.width;
  for (std::int64_t n = 0; n < images; ++n, x += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
      const std::int64_t top = oh * s.stride - s.pad;
      const int h0 = static_cast<int>(std::max<std::int64_t>(0, -top)),
                h1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.h - top));
      const float* const y_row_end = y + s.out_w * s.width;
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, y += s.width, index += index ? s.width : 0) {
        const std::int64_t left = ow * s.stride - s.pad;
        const int w0 = static_cast<int>(std::max<std::int64_t>(0, -left)),
                  w1 = static_cast<int>(std::min<std::int64_t>(s.kernel, s.w - left));
        const float* corner = x + top * row + left * s.width;
        if (s.kernel == 2 && h0 == 0 && w0 == 0 && h1 == 2 && w1 == 2)
          max_pixel(y, index, corner, row, s.width, 2, {0, 2, 0, 2}, x_end, y_row_end);  // constants: unrolled
        else
          max_pixel(y, index, corner, row, s.width, s.kernel, {h0, h1, w0, w1}, x_end, y_row_end);
      }
    }
}

template <int V, bool kAdd>
LACONIC_INLINE void route_lanes(float* dx, const float* dy, const std::uint8_t* index, int q) {
  using L = Lanes<V>;
  typename L::F g, sum;
  typename L::B at;
  load(g, dy);
  load(at, index);
  const typename L::I here = __builtin_convertvector(at, typename L::I) == q;
  const typename L::F routed = here ? g : typename L::F{};
  if (kAdd) {
    load(sum, dx);
    store(dx, sum + routed);
  } else {
    store(dx, routed);
  }
}

/// Windows that neither overlap nor leave the image: every dx is written once, row by row.
LACONIC_MULTIVERSION void max_backward_disjoint(float* dx, const float* dy, const std::uint8_t* index,
                                                const PoolShape s, std::int64_t images, const float* dy_end) {
  const std::int64_t row = s.w * s.width, out_row = s.out_w * s.width, covered = s.out_w * s.kernel * s.width;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t oh = 0; oh < s.out_h; ++oh, dy += out_row, index += out_row)
      for (int i = 0; i < s.kernel; ++i, dx += row) {
        float* out = dx;
        const float* g = dy;
        const std::uint8_t* at = index;
        for (std::int64_t ow = 0; ow < s.out_w; ++ow, g += s.width, at += s.width)
          for (int j = 0; j < s.kernel; ++j, out += s.width) {
            const int q = i * s.kernel + j;
            std::int64_t c = 0;
            for (; c + 16 <= s.width; c += 16) route_lanes<16, false>(out + c, g + c, at + c, q);
            // As in max_pixel: what spills over is written again by the next pixel of this row.
            for (; c < s.width && out + c + 8 <= dx + covered && g + c + 8 <= dy_end; c += 8)
              route_lanes<8, false>(out + c, g + c, at + c, q);
            for (; c < s.width; ++c) out[c] = at[c] == q ? g[c] : 0.0f;
          }
        std::fill(dx + covered, dx + row, 0.0f);
      }
    const std::int64_t rest = (s.h - s.out_h * s.kernel) * row;
    std::fill(dx, dx + rest, 0.0f);
    dx += rest;
  }
}

LACONIC_MULTIVERSION void max_backward_general(float* dx, const float* dy, const std::uint8_t* index, const PoolShape s,
                                               std::int64_t images) {
  const std::int64_t row = s.w * s.width;
  std::fill(dx, dx + images * s.h * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, dy += s.width, index += s.width) {
        const std::int64_t top = oh * s.stride - s.pad, left = ow * s.stride - s.pad;
        const std::int64_t h0 = std::max<std::int64_t>(0, -top), h1 = std::min<std::int64_t>(s.kernel, s.h - top);
        const std::int64_t w0 = std::max<std::int64_t>(0, -left), w1 = std::min<std::int64_t>(s.kernel, s.w - left);
        for (std::int64_t i = h0; i < h1; ++i)
          for (std::int64_t j = w0; j < w1; ++j) {
            const int q = static_cast<int>(i * s.kernel + j);
            float* out = dx + (top + i) * row + (left + j) * s.width;
            std::int64_t c = 0;
            for (; c + 16 <= s.width; c += 16) route_lanes<16, true>(out + c, dy + c, index + c, q);
            for (; c < s.width; ++c) out[c] += index[c] == q ? dy[c] : 0.0f;
          }
      }
}

LACONIC_INLINE void average_lanes(float* y, const float* x, std::int64_t row, std::int64_t pixel, const Span& rows,
                                  const Span& columns, float factor) {
  using F = Lanes<16>::F;
  F even{}, odd{}, v;  // two sums: an addition waits for the one before it
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const float* p = x + i * row + columns.begin * pixel;
    std::int64_t j = columns.begin;
    for (; j + 2 <= columns.end; j += 2, p += 2 * pixel) {
      load(v, p);
      even += v;
      load(v, p + pixel);
      odd += v;
    }
    if (j < columns.end) {
      load(v, p);
      even += v;
    }
  }
  store(y, (even + odd) * factor);
}

LACONIC_MULTIVERSION void average_forward_part(float* y, const float* x, std::int64_t images, std::int64_t h,
                                               std::int64_t w, std::int64_t width, const std::vector<Span>& rows,
                                               const std::vector<Span>& columns) {
  const std::int64_t row = w * width;
  for (std::int64_t n = 0; n < images; ++n, x += h * row)
    for (const Span& r : rows)
      for (const Span& q : columns) {
        const float factor = 1.0f / static_cast<float>(r.extent * q.extent);
        std::int64_t c = 0;
        for (; c + 16 <= width; c += 16) average_lanes(y + c, x + c, row, width, r, q, factor);
        for (; c < width; ++c) {
          float sum = 0;
          for (std::int64_t i = r.begin; i < r.end; ++i)
            for (std::int64_t j = q.begin; j < q.end; ++j) sum += x[i * row + j * width + c];
          y[c] = sum * factor;
        }
        y += width;
      }
}

LACONIC_MULTIVERSION void average_backward_part(float* dx, const float* dy, std::int64_t images, std::int64_t h,
                                                std::int64_t w, std::int64_t width, const std::vector<Span>& rows,
                                                const std::vector<Span>& columns) {
  using F = Lanes<16>::F;
  const std::int64_t row = w * width;
  // One window that is the whole image writes each dx once; otherwise windows may overlap or leave gaps.
  const bool whole = rows.size() == 1 && columns.size() == 1 && rows[0].begin == 0 && rows[0].end == h &&
                     columns[0].begin == 0 && columns[0].end == w;
  if (!whole) std::fill(dx, dx + images * h * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += h * row)
    for (const Span& r : rows)
      for (const Span& q : columns) {
        const float factor = 1.0f / static_cast<float>(r.extent * q.extent);
        std::int64_t c = 0;
        for (; c + 16 <= width; c += 16) {
          F g, sum;
          load(g, dy + c);
          g *= factor;
          for (std::int64_t i = r.begin; i < r.end; ++i)
            for (std::int64_t j = q.begin; j < q.end; ++j) {
              float* out = dx + i * row + j * width + c;
              if (whole) {
                store(out, g);
              } else {
                load(sum, out);
                store(out, sum + g);
              }
            }
        }
        for (std::int64_t i = r.begin; i < r.end; ++i)
          for (std::int64_t j = q.begin; j < q.end; ++j) {
            float* out = dx + i * row + j * width;
            for (std::int64_t k = c; k < width; ++k) out[k] = whole ? dy[k] * factor : out[k] + dy[k] * factor;
          }
        dy += width;
      }
}

std::int64_t grain(std::int64_t image) { return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(image, 1)); }

}  // namespace

void max_pool_forward(float* y, std::uint8_t* index, const float* x, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  parallel_for(s.images, grain(image), [=](std::int64_t b, std::int64_t e) {
    max_forward_part(y + b * out, index ? index + b * out : nullptr, x + b * image, s, e - b, x + s.images * image);
  });
}

void max_pool_backward(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  const bool disjoint = s.pad == 0 && s.stride == s.kernel && s.out_h * s.kernel <= s.h && s.out_w * s.kernel <= s.w;
  parallel_for(s.images, grain(image), [=](std::int64_t b, std::int64_t e) {
    if (disjoint)
      max_backward_disjoint(dx + b * image, dy + b * out, index + b * out, s, e - b, dy + e * out);
    else
      max_backward_general(dx + b * image, dy + b * out, index + b * out, s, e - b);
  });
}

void average_pool_forward(float* y, const float* x, std::int64_t images, std::int64_t h, std::int64_t w,
                          std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns) {
  const std::int64_t image = h * w * width, out = static_cast<std::int64_t>(rows.size() * columns.size()) * width;
  parallel_for(images, grain(image), [&](std::int64_t b, std::int64_t e) {
    average_forward_part(y + b * out, x + b * image, e - b, h, w, width, rows, columns);
  });
}

void average_pool_backward(float* dx, const float* dy, std::int64_t images, std::int64_t h, std::int64_t w,
                           std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns) {
  const std::int64_t image = h * w * width, out = static_cast<std::int64_t>(rows.size() * columns.size()) * width;
  parallel_for(images, grain(image), [&](std::int64_t b, std::int64_t e) {
    average_backward_part(dx + b * image, dy + b * out, e - b, h, w, width, rows, columns);
  });
}

}  // namespace laconic::cpu
