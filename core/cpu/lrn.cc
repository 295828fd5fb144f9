#include "core/cpu/each.h"
#include "core/kernels/images.h"

namespace laconic::cpu {
namespace {

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
