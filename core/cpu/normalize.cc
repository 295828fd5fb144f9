#include "core/cpu/each.h"
#include "core/kernels/images.h"
#include "core/kernels/rows.h"

namespace laconic::cpu {
namespace {

constexpr int kLanes = 32;  // sums that are kept side by side: the same order on every machine

/// sum of lanes, in a fixed order
LACONIC_INLINE float folded(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

/// Goes over 0 <= c < n in lanes l = c % kLanes: begin(c, l) for the first of each lane, more(c, l) for the others.
template <class F, class G>
LACONIC_INLINE void along_lanes(std::int64_t n, F begin, G more) {
  if (n < kLanes) {
    for (int l = 0; l < n; ++l) begin(l, l);
    return;
  }
  LACONIC_INDEPENDENT
  for (int l = 0; l < kLanes; ++l) begin(l, l);
  std::int64_t c = kLanes;
  for (; c + kLanes <= n; c += kLanes) LACONIC_INDEPENDENT
  for (int l = 0; l < kLanes; ++l) more(c + l, l);
  for (int l = 0; c < n; ++c, ++l) more(c, l);
}

/// sum over c of f(c), 0 <= c < n
template <class F>
LACONIC_INLINE float sum_of(std::int64_t n, F f) {
  float lanes[kLanes];
  if (n < kLanes) std::fill_n(lanes, kLanes, 0.0f);
  along_lanes(
      n, [&](std::int64_t c, int l) { lanes[l] = f(c); }, [&](std::int64_t c, int l) { lanes[l] += f(c); });
  return folded(lanes);
}

LACONIC_MULTIVERSION void rows_forward(float* y, float* means, float* inverses, const float* x, const float* gamma,
                                       const float* beta, std::int64_t rows, std::int64_t dim, float epsilon) {
  const float share = 1.0f / static_cast<float>(dim);
  for (std::int64_t r = 0; r < rows; ++r, x += dim, y += dim) {
    const float mean = beta ? share * sum_of(dim, [=](std::int64_t c) { return x[c]; }) : 0.0f;
    const float inverse =
        1.0f / std::sqrt(share * sum_of(dim, [=](std::int64_t c) { return (x[c] - mean) * (x[c] - mean); }) + epsilon);
    means[r] = mean, inverses[r] = inverse;
    if (beta) LACONIC_INDEPENDENT
    for (std::int64_t c = 0; c < dim; ++c) y[c] = (x[c] - mean) * inverse * gamma[c] + beta[c];
    else LACONIC_INDEPENDENT for (std::int64_t c = 0; c < dim; ++c) y[c] = x[c] * inverse * gamma[c];
  }
}

/// With xhat = (x - mean) inverse and g = dy gamma: dx = inverse (g - mean(g) - xhat mean(g xhat)), without mean(g) if
/// not centred; sums [2, dim] = the rows' dy xhat, and dy.
LACONIC_MULTIVERSION void rows_backward(float* dx, float* LACONIC_RESTRICT sums, const float* dy, const float* x,
                                        const float* means, const float* inverses, const float* gamma,
                                        std::int64_t rows, std::int64_t dim, bool centred) {
  const float share = 1.0f / static_cast<float>(dim);
  float *const of_gamma = sums, *const of_beta = sums + dim;
  std::fill_n(sums, 2 * dim, 0.0f);
  for (std::int64_t r = 0; r < rows; ++r, dx += dim, dy += dim, x += dim) {
    const float mean = means[r], inverse = inverses[r];
    float products[kLanes], plain[kLanes];
    if (dim < kLanes) std::fill_n(products, kLanes, 0.0f), std::fill_n(plain, kLanes, 0.0f);
    const auto part = [&](std::int64_t c, float& product, float& g) {
      const float xhat = (x[c] - mean) * inverse;
      of_gamma[c] += dy[c] * xhat;
      of_beta[c] += dy[c];
      g = dy[c] * gamma[c];
      product = g * xhat;
    };
    along_lanes(
        dim, [&](std::int64_t c, int l) { part(c, products[l], plain[l]); },
        [&](std::int64_t c, int l) {
          float product, g;
          part(c, product, g);
          products[l] += product;
          plain[l] += g;
        });
    const float by_xhat = share * folded(products) * inverse, less = centred ? share * folded(plain) : 0.0f;
    LACONIC_INDEPENDENT
    for (std::int64_t c = 0; c < dim; ++c) dx[c] = inverse * (dy[c] * gamma[c] - less - (x[c] - mean) * by_xhat);
  }
}

/// All channels of one pixel, side by side.
void gather(float* out, const float* x, const ChannelView& v) {
  for (std::int64_t g = 0; g < v.groups; ++g) std::copy_n(x + g * v.rows * v.width, v.width, out + g * v.width);
}
void scatter(float* x, const float* in, const ChannelView& v) {
  for (std::int64_t g = 0; g < v.groups; ++g) std::copy_n(in + g * v.width, v.width, x + g * v.rows * v.width);
}

/// p[c] = d[c]^-beta
LACONIC_MULTIVERSION void power(float* LACONIC_RESTRICT p, const float* LACONIC_RESTRICT d, float beta,
                                std::int64_t n) {
  if (beta == 0.75f) {  // everyone's choice
    for (std::int64_t c = 0; c < n; ++c) p[c] = 1.0f / (std::sqrt(d[c]) * std::sqrt(std::sqrt(d[c])));
  } else {
    for (std::int64_t c = 0; c < n; ++c) p[c] = std::pow(d[c], -beta);
  }
}

/// sum[c] = values[c - before] + … + values[c + after]; `values` has `before` zeros in front and `after` behind.
LACONIC_MULTIVERSION void window_sums(float* LACONIC_RESTRICT sum, const float* LACONIC_RESTRICT values, int size,
                                      std::int64_t n) {
  std::fill(sum, sum + n, 0.0f);
  for (int o = 0; o < size; ++o)
    for (std::int64_t c = 0; c < n; ++c) sum[c] += values[c + o];
}

LACONIC_MULTIVERSION void squares(float* LACONIC_RESTRICT y, const float* LACONIC_RESTRICT x, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) y[c] = x[c] * x[c];
}

LACONIC_MULTIVERSION void denominators(float* d, float k, float a, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) d[c] = k + a * d[c];
}

/// Work space for one pixel.
struct Pixel {
  Pixel(std::int64_t n, int size)
      : before(size / 2), after((size - 1) / 2), padded(n + size), x(n), dy(n), d(n), p(n), sum(n) {}
  std::int64_t before, after;
  std::vector<float> padded, x, dy, d, p, sum;

  void load(const float* from, const ChannelView& v, const LrnShape& s) {
    const auto n = static_cast<std::int64_t>(x.size());
    gather(x.data(), from, v);
    std::fill(padded.begin(), padded.end(), 0.0f);
    squares(padded.data() + before, x.data(), n);
    window_sums(d.data(), padded.data(), s.size, n);
    denominators(d.data(), s.k, s.alpha / static_cast<float>(s.size), n);
    power(p.data(), d.data(), s.beta, n);
  }
};

template <class F>
void for_pixels(const ChannelView& v, const LrnShape& s, F&& f) {
  const std::int64_t channels = v.groups * v.width;
  parallel_for(v.outer, std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, v.rows * channels)),
               [&](std::int64_t begin, std::int64_t end) {
                 Pixel pixel(channels, s.size);
                 for (std::int64_t n = begin; n < end; ++n)
                   for (std::int64_t r = 0; r < v.rows; ++r) f(pixel, n * v.rows * channels + r * v.width);
               });
}

}  // namespace

void normalize_rows(float* y, float* stats, const float* x, const float* gamma, const float* beta, std::int64_t rows,
                    std::int64_t dim, float epsilon) {
  parallel_for(rows, row_grain(dim, 2), [=](std::int64_t begin, std::int64_t end) {
    rows_forward(y + begin * dim, stats + begin, stats + rows + begin, x + begin * dim, gamma, beta, end - begin, dim,
                 epsilon);
  });
}

void normalize_rows_backward(const NormalizeGradients& to, const float* dy, const float* x, const float* stats,
                             const float* gamma, std::int64_t rows, std::int64_t dim, bool centred) {
  const std::int64_t length = std::clamp<std::int64_t>(16384 / std::max<std::int64_t>(dim, 1), 1, 1024),
                     chunks = (rows + length - 1) / length;
  thread_local std::vector<float> room;  // the chunks' sums; kept, as a step needs the same size again
  if (room.size() < static_cast<std::size_t>(chunks * 2 * dim)) room.resize(static_cast<std::size_t>(chunks * 2 * dim));
  float* const sums = room.data();
  parallel_for(chunks, 2, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * length;
      rows_backward(to.dx + first * dim, sums + i * 2 * dim, dy + first * dim, x + first * dim, stats + first,
                    stats + rows + first, gamma, std::min(length, rows - first), dim, centred);
    }
  });
  const auto add_up = [&](float* total, bool add, const float* from) {
    if (total == nullptr) return;
    constexpr std::int64_t kAtOnce = 256;
    for (std::int64_t c0 = 0; c0 < dim; c0 += kAtOnce) {
      double t[kAtOnce] = {};
      const std::int64_t count = std::min(kAtOnce, dim - c0);
      for (std::int64_t i = 0; i < chunks; ++i)
        for (std::int64_t c = 0; c < count; ++c) t[c] += from[i * 2 * dim + c0 + c];
      for (std::int64_t c = 0; c < count; ++c) total[c0 + c] = static_cast<float>(add ? total[c0 + c] + t[c] : t[c]);
    }
  };
  add_up(to.dgamma, to.add_to_gamma, sums);
  add_up(to.dbeta, to.add_to_beta, sums + dim);
}

void lrn_forward(float* y, const float* x, const ChannelView& v, const LrnShape& s) {
  for_pixels(v, s, [&](Pixel& pixel, std::int64_t at) {
    pixel.load(x + at, v, s);
    for (std::size_t c = 0; c < pixel.x.size(); ++c) pixel.x[c] *= pixel.p[c];
    scatter(y + at, pixel.x.data(), v);
  });
}

void lrn_backward(float* dx, const float* dy, const float* x, const ChannelView& v, const LrnShape& s) {
  const float factor = 2.0f * s.alpha * s.beta / static_cast<float>(s.size);
  for_pixels(v, s, [&](Pixel& pixel, std::int64_t at) {
    pixel.load(x + at, v, s);
    gather(pixel.dy.data(), dy + at, v);
    const std::size_t n = pixel.x.size();
    std::fill(pixel.padded.begin(), pixel.padded.end(), 0.0f);
    float* t = pixel.padded.data() + pixel.after;  // the windows that hold a channel: the mirrored window
    for (std::size_t c = 0; c < n; ++c) t[c] = pixel.dy[c] * pixel.x[c] * pixel.p[c] / pixel.d[c];
    window_sums(pixel.sum.data(), pixel.padded.data(), s.size, static_cast<std::int64_t>(n));
    for (std::size_t c = 0; c < n; ++c) pixel.dy[c] = pixel.dy[c] * pixel.p[c] - factor * pixel.x[c] * pixel.sum[c];
    scatter(dx + at, pixel.dy.data(), v);
  });
}

}  // namespace laconic::cpu
