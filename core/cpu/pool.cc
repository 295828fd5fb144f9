#include "core/cpu/each.h"
#include "core/kernels/images.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kLanes = 8;
typedef std::int32_t Places __attribute__((vector_size(32)));  // places in windows
typedef std::uint8_t Bytes __attribute__((vector_size(8)));

/// The part of a window that is inside the image.
struct Inside {
  int h0, h1, w0, w1;
  bool all(int kernel) const { return h1 - h0 == kernel && w1 - w0 == kernel; }
};
LACONIC_INLINE Inside inside(const PoolShape& s, std::int64_t top, std::int64_t left) {
  const auto at_least_0 = [](std::int64_t x) { return static_cast<int>(std::max<std::int64_t>(0, x)); };
  const auto at_most = [](int most, std::int64_t x) { return static_cast<int>(std::min<std::int64_t>(most, x)); };
  return {at_least_0(-top), at_most(s.kernel, s.h - top), at_least_0(-left), at_most(s.kernel, s.w - left)};
}

/// The largest of 8 channels in a window that begins at x. Constant bounds unroll the loops.
LACONIC_INLINE void max_lanes(float* y, std::uint8_t* index, const float* x, std::int64_t row, std::int64_t width,
                              int kernel, const Inside& in) {
  HalfLanes best, v;
  load(best, x + in.h0 * row + in.w0 * width);
  Places at = Places{} + (in.h0 * kernel + in.w0);
  for (int i = in.h0; i < in.h1; ++i)
    for (int j = in.w0; j < in.w1; ++j) {
      load(v, x + i * row + j * width);
      const Places better = (v > best) | (v != v);
      best = better ? v : best;
      at = better ? Places{} + (i * kernel + j) : at;
    }
  store(y, best);
  if (index) store(index, __builtin_convertvector(at, Bytes));
}

/// g = dy of 8 channels where the largest was at this place of the window, else 0.
LACONIC_INLINE void route(HalfLanes& g, const float* dy, const std::uint8_t* index, int place) {
  Bytes at;
  load(g, dy), load(at, index);
  g = __builtin_convertvector(at, Places) == place ? g : HalfLanes{};
}

using Window = Averages::Window;

LACONIC_INLINE void average_lanes(float* y, const float* x, std::int64_t row, std::int64_t pixel, const Window& rows,
                                  const Window& columns, float factor) {
  Lanes even{}, odd{}, v;  // two sums: an addition waits for the one before it
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

LACONIC_MULTIVERSION void average_forward_part(float* y, const float* x, std::int64_t images, std::int64_t width,
                                               Averages rows, Averages columns) {
  const std::int64_t row = columns.extent * width;
  for (std::int64_t n = 0; n < images; ++n, x += rows.extent * row)
    for (std::int64_t k = 0; k < rows.out; ++k)
      for (std::int64_t l = 0; l < columns.out; ++l) {
        const Window r = rows[k], q = columns[l];
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

LACONIC_MULTIVERSION void average_backward_part(float* dx, const float* dy, std::int64_t images, std::int64_t width,
                                                Averages rows, Averages columns) {
  const std::int64_t row = columns.extent * width;
  // One window that is the whole image writes each dx once; otherwise windows may overlap or leave gaps.
  const auto covers = [](const Averages& axis) {
    return axis.out == 1 && axis[0].begin == 0 && axis[0].end == axis.extent;
  };
  const bool whole = covers(rows) && covers(columns);
  if (!whole) std::fill(dx, dx + images * rows.extent * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += rows.extent * row)
    for (std::int64_t k = 0; k < rows.out; ++k)
      for (std::int64_t l = 0; l < columns.out; ++l) {
        const Window r = rows[k], q = columns[l];
        const float factor = 1.0f / static_cast<float>(r.extent * q.extent);
        std::int64_t c = 0;
        for (; c + 16 <= width; c += 16) {
          Lanes g, sum;
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
            for (std::int64_t i0 = c; i0 < width; ++i0) out[i0] = whole ? dy[i0] * factor : out[i0] + dy[i0] * factor;
          }
        dy += width;
      }
}

}  // namespace

// Vectors of 8 channels. The last of a pixel may hold channels of the next, too. What is stored for those is stored
// again when their turn comes; where nothing follows, channels go one by one.

LACONIC_MULTIVERSION void max_forward_lanes(float* y, std::uint8_t* index, const float* x, const PoolShape& s,
                                            std::int64_t images) {
  const std::int64_t row = s.w * s.width;
  const float* const end = x + images * s.h * row;
  const float* const y_end = y + images * s.out_h * s.out_w * s.width;
  for (std::int64_t n = 0; n < images; ++n, x += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
        const std::int64_t top = oh * s.stride - s.pad, left = ow * s.stride - s.pad;
        const Inside in = inside(s, top, left);
        const float* const window = x + (top * row + left * s.width);
        const std::int64_t last = (in.h1 - 1) * row + (in.w1 - 1) * s.width;
        std::int64_t c = 0;
        for (; c < s.width && end - window >= last + c + kLanes && y_end - y >= c + kLanes; c += kLanes) {
          std::uint8_t* const to = index ? index + c : nullptr;
          if (s.kernel == 2 && in.all(2))
            max_lanes(y + c, to, window + c, row, s.width, 2, {0, 2, 0, 2});
          else if (s.kernel == 3 && in.all(3))
            max_lanes(y + c, to, window + c, row, s.width, 3, {0, 3, 0, 3});
          else
            max_lanes(y + c, to, window + c, row, s.width, s.kernel, in);
        }
        for (; c < s.width; ++c) {
          float best = window[in.h0 * row + in.w0 * s.width + c];
          int at = in.h0 * s.kernel + in.w0;
          for (int i = in.h0; i < in.h1; ++i)
            for (int j = in.w0; j < in.w1; ++j)
              if (const float v = window[i * row + j * s.width + c]; v > best || v != v)
                best = v, at = i * s.kernel + j;
          y[c] = best;
          if (index) index[c] = static_cast<std::uint8_t>(at);
        }
        y += s.width;
        if (index) index += s.width;
      }
}

/// For disjoint windows: each dx is written once, row by row.
LACONIC_MULTIVERSION static void max_backward_once(float* dx, const float* dy, const std::uint8_t* index,
                                                   const PoolShape& s, std::int64_t images) {
  const std::int64_t row = s.w * s.width, out_row = s.out_w * s.width;
  const float* const end = dx + images * s.h * row;
  const float* const dy_end = dy + images * s.out_h * out_row;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t oh = 0; oh < s.out_h; ++oh, dy += out_row, index += out_row)
      for (int i = 0; i < 2; ++i, dx += row) {
        for (std::int64_t ow = 0; ow < s.out_w; ++ow)
          for (int j = 0; j < 2; ++j) {
            float* const to = dx + (2 * ow + j) * s.width;
            const std::int64_t from = ow * s.width;
            std::int64_t c = 0;
            for (; c < s.width && end - to >= c + kLanes && dy_end - dy >= from + c + kLanes; c += kLanes) {
              HalfLanes g;
              route(g, dy + from + c, index + from + c, 2 * i + j);
              store(to + c, g);
            }
            for (; c < s.width; ++c) to[c] = index[from + c] == 2 * i + j ? dy[from + c] : 0.0f;
          }
        std::fill(dx + 2 * out_row, dx + row, 0.0f);
      }
    const std::int64_t rest = (s.h - 2 * s.out_h) * row;
    std::fill(dx, dx + rest, 0.0f);
    dx += rest;
  }
}

LACONIC_MULTIVERSION static void max_backward_sums(float* dx, const float* dy, const std::uint8_t* index,
                                                   const PoolShape& s, std::int64_t images) {
  const std::int64_t row = s.w * s.width;
  std::fill(dx, dx + images * s.h * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, dy += s.width, index += s.width) {
        const std::int64_t top = oh * s.stride - s.pad, left = ow * s.stride - s.pad;
        const Inside in = inside(s, top, left);
        float* const window = dx + (top * row + left * s.width);
        std::int64_t c = 0;
        for (; c + kLanes <= s.width; c += kLanes)
          for (int i = in.h0; i < in.h1; ++i)
            for (int j = in.w0; j < in.w1; ++j) {
              float* const to = window + (i * row + j * s.width + c);
              HalfLanes sum, g;
              load(sum, to);
              route(g, dy + c, index + c, i * s.kernel + j);
              store(to, sum + g);
            }
        for (; c < s.width; ++c) window[index[c] / s.kernel * row + index[c] % s.kernel * s.width + c] += dy[c];
      }
}

void max_backward_lanes(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                        std::int64_t images) {
  (s.disjoint() ? max_backward_once : max_backward_sums)(dx, dy, index, s, images);
}

void max_pool_forward(float* y, std::uint8_t* index, const float* x, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  const auto part = has_avx512() ? max_forward_avx512 : max_forward_lanes;
  parallel_for(s.images, row_grain(image), [=](std::int64_t b, std::int64_t e) {
    part(y + b * out, index ? index + b * out : nullptr, x + b * image, s, e - b);
  });
}

void max_pool_backward(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  const auto part = has_avx512() ? max_backward_avx512 : max_backward_lanes;
  parallel_for(s.images, row_grain(image),
               [=](std::int64_t b, std::int64_t e) { part(dx + b * image, dy + b * out, index + b * out, s, e - b); });
}

void average_pool_forward(float* y, const float* x, std::int64_t images, std::int64_t width, const Averages& rows,
                          const Averages& columns) {
  const std::int64_t image = rows.extent * columns.extent * width, out = rows.out * columns.out * width;
  parallel_for(images, row_grain(image), [&](std::int64_t b, std::int64_t e) {
    average_forward_part(y + b * out, x + b * image, e - b, width, rows, columns);
  });
}

void average_pool_backward(float* dx, const float* dy, std::int64_t images, std::int64_t width, const Averages& rows,
                           const Averages& columns) {
  const std::int64_t image = rows.extent * columns.extent * width, out = rows.out * columns.out * width;
  parallel_for(images, row_grain(image), [&](std::int64_t b, std::int64_t e) {
    average_backward_part(dx + b * image, dy + b * out, e - b, width, rows, columns);
  });
}

}  // namespace laconic::cpu
