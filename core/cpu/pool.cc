#include "core/cpu/each.h"
#include "core/kernels/images.h"

namespace laconic::cpu {
namespace {

/// The part of a window that is inside the image.
struct Inside {
  std::int64_t h0, h1, w0, w1;
};
Inside inside(const PoolShape& s, std::int64_t top, std::int64_t left) {
  return {std::max<std::int64_t>(0, -top), std::min<std::int64_t>(s.kernel, s.h - top),
          std::max<std::int64_t>(0, -left), std::min<std::int64_t>(s.kernel, s.w - left)};
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

void max_forward_simple(float* y, std::uint8_t* index, const float* x, const PoolShape& s, std::int64_t images) {
  const std::int64_t row = s.w * s.width;
  for (std::int64_t n = 0; n < images; ++n, x += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
        const std::int64_t top = oh * s.stride - s.pad, left = ow * s.stride - s.pad;
        const Inside in = inside(s, top, left);
        for (std::int64_t c = 0; c < s.width; ++c) {
          float best = x[(top + in.h0) * row + (left + in.w0) * s.width + c];
          std::int64_t at = in.h0 * s.kernel + in.w0;
          for (std::int64_t i = in.h0; i < in.h1; ++i)
            for (std::int64_t j = in.w0; j < in.w1; ++j) {
              const float v = x[(top + i) * row + (left + j) * s.width + c];
              if (v > best || v != v) best = v, at = i * s.kernel + j;
            }
          *y++ = best;
          if (index) *index++ = static_cast<std::uint8_t>(at);
        }
      }
}

void max_backward_simple(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                         std::int64_t images) {
  const std::int64_t row = s.w * s.width;
  std::fill(dx, dx + images * s.h * row, 0.0f);
  for (std::int64_t n = 0; n < images; ++n, dx += s.h * row)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow)
        for (std::int64_t c = 0; c < s.width; ++c, ++dy, ++index) {
          const std::int64_t h = oh * s.stride - s.pad + *index / s.kernel,
                             w = ow * s.stride - s.pad + *index % s.kernel;
          dx[h * row + w * s.width + c] += *dy;
        }
}

void max_pool_forward(float* y, std::uint8_t* index, const float* x, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  const auto part = has_avx512() ? max_forward_avx512 : max_forward_simple;
  parallel_for(s.images, row_grain(image), [=](std::int64_t b, std::int64_t e) {
    part(y + b * out, index ? index + b * out : nullptr, x + b * image, s, e - b);
  });
}

void max_pool_backward(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s) {
  const std::int64_t image = s.h * s.w * s.width, out = s.out_h * s.out_w * s.width;
  const auto part = has_avx512() ? max_backward_avx512 : max_backward_simple;
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
