#include "core/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cpu/onednn.h"
#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

// Rows are contiguous runs of `width` channels. Sums go 16 channels at a time down the rows, in registers; what is left
// of a width that is no multiple of 16 goes channel by channel.

/// sum[c] = sum over rows of d, square[c] = of d^2, d = x - shift. Two rows at a time: an addition waits for the one
/// before it.
LACONIC_INLINE void statistics_lanes(float* sum, float* square, const float* x, std::int64_t rows, std::int64_t width,
                                     const float* shift) {
  Lanes m, d, e, s0{}, s1{}, q0{}, q1{};
  load(m, shift);
  std::int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    load(d, x + r * width);
    load(e, x + (r + 1) * width);
    d -= m;
    e -= m;
    s0 += d;
    s1 += e;
    q0 += d * d;
    q1 += e * e;
  }
  if (r < rows) {
    load(d, x + r * width);
    d -= m;
    s0 += d;
    q0 += d * d;
  }
  store(sum, s0 + s1);
  store(square, q0 + q1);
}
LACONIC_MULTIVERSION void statistics_part(float* sum, float* square, const float* x, std::int64_t rows,
                                          std::int64_t width, const float* shift) {
  std::int64_t c = 0;
  for (; c + 16 <= width; c += 16) statistics_lanes(sum + c, square + c, x + c, rows, width, shift + c);
  const std::int64_t first = c;
  for (c = first; c < width; ++c) sum[c] = square[c] = 0.0f;
  for (std::int64_t r = 0; r < rows; ++r)
    for (c = first; c < width; ++c) {
      const float d = x[r * width + c] - shift[c];
      sum[c] += d;
      square[c] += d * d;
    }
}

template <int W, bool Relu, bool Residual>
LACONIC_INLINE void apply_rows(float* y, const float* x, std::int64_t rows, std::int64_t width, const float* scale,
                                              const float* offset, const float* residual) {
  const std::int64_t w = W > 0 ? W : width;
  for (std::int64_t r = 0; r < rows; ++r)
    LACONIC_INDEPENDENT
    for (std::int64_t c = 0; c < w; ++c) {
      float value = x[r * w + c] * scale[c] + offset[c];
      if (Residual) value += residual[r * w + c];
      if (Relu) value = value < 0.0f ? 0.0f : value;
      y[r * w + c] = value;
    }
}
template <bool Relu, bool Residual>
LACONIC_INLINE void apply_width(float* y, const float* x, std::int64_t rows, std::int64_t width, const float* scale,
                                               const float* offset, const float* residual) {
  if (width == 16) {
    float s[16], o[16];  // copies: the compiler then knows that y does not overwrite them
    std::copy_n(scale, 16, s);
    std::copy_n(offset, 16, o);
    return apply_rows<16, Relu, Residual>(y, x, rows, width, s, o, residual);
  }
  apply_rows<0, Relu, Residual>(y, x, rows, width, scale, offset, residual);
}
LACONIC_MULTIVERSION void apply_part(float* y, const float* x, std::int64_t rows, std::int64_t width,
                                     const float* LACONIC_RESTRICT scale, const float* LACONIC_RESTRICT offset,
                                     const float* residual, bool relu) {
  if (relu && residual) return apply_width<true, true>(y, x, rows, width, scale, offset, residual);
  if (relu) return apply_width<true, false>(y, x, rows, width, scale, offset, residual);
  if (residual) return apply_width<false, true>(y, x, rows, width, scale, offset, residual);
  apply_width<false, false>(y, x, rows, width, scale, offset, residual);
}

/// g = (dy + dy2) where y > 0;   sum_g = sum over rows of g,   sum_gx = of g (x - mean)
template <class Vector, bool Pair, bool Relu>
LACONIC_INLINE void sums_lanes(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2, const float* y,
                               const float* x, std::int64_t rows, std::int64_t width, const float* mean) {
  Vector m, s{}, q{}, value, other, pixel;
  load(m, mean);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t i = r * width;
    load(value, dy + i);
    if (Pair) {
      load(other, dy2 + i);
      value += other;
    }
    if (Relu) {
      load(other, y + i);
      value = other > 0.0f ? value : Vector{};
    }
    store(g + i, value);
    load(pixel, x + i);
    s += value;
    q += value * (pixel - m);
  }
  store(sum_g, s);
  store(sum_gx, q);
}
template <class Vector, bool Pair, bool Relu>
LACONIC_INLINE void sums_width(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2, const float* y,
                               const float* x, std::int64_t rows, std::int64_t width, const float* mean) {
  std::int64_t c = 0;
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);
  for (; c + kLanes <= width; c += kLanes)
    sums_lanes<Vector, Pair, Relu>(g + c, sum_g + c, sum_gx + c, dy + c, Pair ? dy2 + c : nullptr,
                                   Relu ? y + c : nullptr, x + c, rows, width, mean + c);
  const std::int64_t first = c;
  for (c = first; c < width; ++c) sum_g[c] = sum_gx[c] = 0.0f;
  for (std::int64_t r = 0; r < rows; ++r)
    for (c = first; c < width; ++c) {
      const std::int64_t i = r * width + c;
      float value = dy[i];
      if (Pair) value += dy2[i];
      if (Relu) value = y[i] > 0.0f ? value : 0.0f;
      g[i] = value;
      sum_g[c] += value;
      sum_gx[c] += value * (x[i] - mean[c]);
    }
}
template <class Vector>
LACONIC_INLINE void sums_by(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2, const float* y,
                            const float* x, std::int64_t rows, std::int64_t width, const float* mean) {
  if (dy2 && y) return sums_width<Vector, true, true>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
  if (dy2) return sums_width<Vector, true, false>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
  if (y) return sums_width<Vector, false, true>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
  sums_width<Vector, false, false>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
}
LACONIC_MULTIVERSION void sums_by_16(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2,
                                     const float* y, const float* x, std::int64_t rows, std::int64_t width,
                                     const float* mean) {
  sums_by<Lanes>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
}
/// It compares (core/cpu/simd.h): on processors with narrower vectors than 16 floats four times as fast as by 16.
LACONIC_MULTIVERSION void sums_by_8(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2,
                                    const float* y, const float* x, std::int64_t rows, std::int64_t width,
                                    const float* mean) {
  sums_by<HalfLanes>(g, sum_g, sum_gx, dy, dy2, y, x, rows, width, mean);
}

LACONIC_MULTIVERSION void data_part(float* dx, const float* g, const float* x, std::int64_t rows, std::int64_t width,
                                    const float* LACONIC_RESTRICT a, const float* LACONIC_RESTRICT b,
                                    const float* LACONIC_RESTRICT d) {
  if (width == 16) {
    float aa[16], bb[16], dd[16];
    std::copy_n(a, 16, aa), std::copy_n(b, 16, bb), std::copy_n(d, 16, dd);
    for (std::int64_t r = 0; r < rows; ++r)
      LACONIC_INDEPENDENT
      for (int c = 0; c < 16; ++c) dx[r * 16 + c] = aa[c] * g[r * 16 + c] + (bb[c] * x[r * 16 + c] + dd[c]);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    LACONIC_INDEPENDENT
  for (std::int64_t c = 0; c < width; ++c)
    dx[r * width + c] = a[c] * g[r * width + c] + (b[c] * x[r * width + c] + d[c]);
}

/// A piece of consecutive rows of one (outer, group), small enough to keep float sums exact and threads busy.
struct Chunks {
  explicit Chunks(const ChannelView& v) : v_(v) {
    // Where an outer holds one short group only (channels_last images, [N, C]) its rows follow the previous outer's.
    if (v.groups == 1) v_ = {1, 1, v.outer * v.rows, v.width};
    rows_ = std::clamp<std::int64_t>(16384 / v_.width, 1, 1024);
    per_group_ = (v_.rows + rows_ - 1) / rows_;
  }
  std::int64_t count() const { return v_.outer * v_.groups * per_group_; }
  struct Chunk {
    std::int64_t offset, rows, channel;
  };
  Chunk operator[](std::int64_t i) const {
    const std::int64_t group = i / per_group_, first = i % per_group_ * rows_;
    return {(group * v_.rows + first) * v_.width, std::min(rows_, v_.rows - first), group % v_.groups * v_.width};
  }
  /// Calls f(chunk, number) for all chunks, in parallel.
  template <class F>
  void each(F&& f) const {
    parallel_for(count(), 2, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) f((*this)[i], i);
    });
  }
  std::int64_t width() const { return v_.width; }
  std::int64_t channels() const { return v_.groups * v_.width; }
  std::int64_t values_per_channel() const { return v_.outer * v_.rows; }

 private:
  ChannelView v_;
  std::int64_t rows_, per_group_;
};

/// total[c] = sum over chunks, in order, of partial[chunk][c]
void add_up(std::vector<double>& total, const Chunks& chunks, const std::vector<float>& partial) {
  total.assign(static_cast<std::size_t>(chunks.channels()), 0.0);
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    double* t = total.data() + chunks[i].channel;
    const float* p = partial.data() + i * chunks.width();
    for (std::int64_t c = 0; c < chunks.width(); ++c) t[c] += p[c];
  }
}

/// Per-thread room for partial sums, kept: a step needs the same sizes again.
struct Room {
  std::vector<float> first, second;
  std::vector<double> first_total, second_total;
};
Room& room(const Chunks& chunks) {
  thread_local Room r;
  const auto n = static_cast<std::size_t>(chunks.count() * chunks.width());
  if (r.first.size() < n) r.first.resize(n), r.second.resize(n);
  return r;
}

}  // namespace

void batch_norm_statistics(float* stats, const float* x, const ChannelView& v, const BatchNormParameters& p) {
  const Chunks chunks(v);
  const std::int64_t channels = chunks.channels(), width = chunks.width(), values = chunks.values_per_channel();
  float *mean = stats, *inverse = mean + channels, *scale = inverse + channels, *offset = scale + channels;
  if (p.training && values > 0) {
    Room& r = room(chunks);
    float *sum = r.first.data(), *square = r.second.data();
    chunks.each([&](const Chunks::Chunk& c, std::int64_t i) {
      statistics_part(sum + i * width, square + i * width, x + c.offset, c.rows, width, p.running_mean + c.channel);
    });
    add_up(r.first_total, chunks, r.first);
    add_up(r.second_total, chunks, r.second);
    const double n = static_cast<double>(values);
    const float unbias = static_cast<float>(n / (n - 1));
    for (std::int64_t c = 0; c < channels; ++c) {
      const double d = r.first_total[c] / n;
      const auto variance = static_cast<float>(std::max(0.0, r.second_total[c] / n - d * d));
      mean[c] = static_cast<float>(p.running_mean[c] + d);
      inverse[c] = variance;
      p.running_mean[c] += p.momentum * (mean[c] - p.running_mean[c]);
      p.running_var[c] += p.momentum * (variance * unbias - p.running_var[c]);
    }
  } else {
    std::copy_n(p.running_mean, channels, mean);
    std::copy_n(p.running_var, channels, inverse);
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse[c] = 1.0f / std::sqrt(inverse[c] + p.epsilon);
    scale[c] = p.gamma[c] * inverse[c];
    offset[c] = p.beta[c] - mean[c] * scale[c];
  }
}

void batch_norm_apply(float* y, const float* x, const ChannelView& v, const float* scale, const float* offset,
                      const float* residual, bool relu) {
  const Chunks chunks(v);
  chunks.each([&](const Chunks::Chunk& c, std::int64_t) {
    apply_part(y + c.offset, x + c.offset, c.rows, chunks.width(), scale + c.channel, offset + c.channel,
               residual ? residual + c.offset : nullptr, relu);
  });
}

void batch_norm_backward_sums(float* g, float* coefficients, const float* dy, const float* dy2, const float* y,
                              const float* x, const ChannelView& v, const BatchNormBackward& b) {
  const Chunks chunks(v);
  Room& r = room(chunks);
  float *first = r.first.data(), *second = r.second.data();
  const std::int64_t width = chunks.width(), channels = chunks.channels();
  const float *mean = b.stats, *inverse = mean + channels;
  const auto part = has_avx512() ? sums_by_16 : sums_by_8;
  chunks.each([&](const Chunks::Chunk& c, std::int64_t i) {
    part(g + c.offset, first + i * width, second + i * width, dy + c.offset, dy2 ? dy2 + c.offset : nullptr,
         y ? y + c.offset : nullptr, x + c.offset, c.rows, width, mean + c.channel);
  });
  add_up(r.first_total, chunks, r.first);
  add_up(r.second_total, chunks, r.second);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto sum_g = static_cast<float>(r.first_total[c]), sum_gx = static_cast<float>(r.second_total[c]);
    if (b.dgamma) b.dgamma[c] = (b.add_to_gamma ? b.dgamma[c] : 0.0f) + sum_gx * inverse[c];
    if (b.dbeta) b.dbeta[c] = (b.add_to_beta ? b.dbeta[c] : 0.0f) + sum_g;
    const BatchNormCoefficients of(b.gamma[c], mean[c], inverse[c], sum_g, sum_gx, chunks.values_per_channel(),
                                   b.training);
    coefficients[c] = of.a, coefficients[channels + c] = of.b, coefficients[2 * channels + c] = of.d;
  }
}

void batch_norm_backward_data(float* dx, const float* g, const float* x, const ChannelView& v,
                              const float* coefficients) {
  const Chunks chunks(v);
  const float *a = coefficients, *b = a + chunks.channels(), *d = b + chunks.channels();
  chunks.each([&](const Chunks::Chunk& c, std::int64_t) {
    data_part(dx + c.offset, g + c.offset, x + c.offset, c.rows, chunks.width(), a + c.channel, b + c.channel,
              d + c.channel);
  });
}

}  // namespace laconic::cpu
