#include "core/cpu/each.h"
#include "core/kernels/images.h"
// Below the others, which say for which device.
#include "core/kernels/batch_norm.cuh"

namespace laconic::cpu {
namespace {

// Rows are contiguous runs of `width` channels. Sums go 16 channels at a time down the rows, in registers; what is left
// of a width that is no multiple of 16 goes channel by channel.

/// sum[c] = sum over rows of d, square[c] = of d^2, d = x - shift. Two rows at a time: an addition waits for the one
/// before it.
LACONIC_MULTIVERSION void statistics_part(float* sum, float* square, const float* x, std::int64_t rows,
                                          std::int64_t width, const float* shift) {
  std::int64_t c = 0;
  for (; c + 16 <= width; c += 16) {
    Lanes m, d, e, s0{}, s1{}, q0{}, q1{};
    load(m, shift + c);
    std::int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      load(d, x + r * width + c);
      load(e, x + (r + 1) * width + c);
      d -= m;
      e -= m;
      s0 += d;
      s1 += e;
      q0 += d * d;
      q1 += e * e;
    }
    if (r < rows) {
      load(d, x + r * width + c);
      d -= m;
      s0 += d;
      q0 += d * d;
    }
    store(sum + c, s0 + s1);
    store(square + c, q0 + q1);
  }
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
struct Sums {
  float *g, *sum_g, *sum_gx;
  const float *dy, *dy2, *y, *x, *mean;
  std::int64_t rows, width;
};
template <class Vector, bool Pair, bool Relu>
LACONIC_INLINE void sums_width(const Sums& s) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);
  std::int64_t c = 0;
  for (; c + kLanes <= s.width; c += kLanes) {
    Vector m, sum{}, product{}, value, other, pixel;
    load(m, s.mean + c);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::int64_t i = r * s.width + c;
      load(value, s.dy + i);
      if (Pair) {
        load(other, s.dy2 + i);
        value += other;
      }
      if (Relu) {
        load(other, s.y + i);
        value = other > 0.0f ? value : Vector{};
      }
      store(s.g + i, value);
      load(pixel, s.x + i);
      sum += value;
      product += value * (pixel - m);
    }
    store(s.sum_g + c, sum);
    store(s.sum_gx + c, product);
  }
  const std::int64_t first = c;
  for (c = first; c < s.width; ++c) s.sum_g[c] = s.sum_gx[c] = 0.0f;
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (c = first; c < s.width; ++c) {
      const std::int64_t i = r * s.width + c;
      float value = s.dy[i];
      if (Pair) value += s.dy2[i];
      if (Relu) value = s.y[i] > 0.0f ? value : 0.0f;
      s.g[i] = value;
      s.sum_g[c] += value;
      s.sum_gx[c] += value * (s.x[i] - s.mean[c]);
    }
}
template <class Vector>
LACONIC_INLINE void sums_by(const Sums& s) {
  if (s.dy2 && s.y) return sums_width<Vector, true, true>(s);
  if (s.dy2) return sums_width<Vector, true, false>(s);
  if (s.y) return sums_width<Vector, false, true>(s);
  sums_width<Vector, false, false>(s);
}
LACONIC_MULTIVERSION void sums_by_16(Sums s) { sums_by<Lanes>(s); }
/// It compares (core/cpu/simd.h): on processors with narrower vectors than 16 floats four times as fast as by 16.
LACONIC_MULTIVERSION void sums_by_8(Sums s) { sums_by<HalfLanes>(s); }

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
  /// The first row of each group: of each channel one value.
  void first_rows(float* to, const float* x) const {
    for (std::int64_t g = 0; g < v_.groups; ++g) std::copy_n(x + g * v_.rows * v_.width, v_.width, to + g * v_.width);
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
  std::vector<float> first, second, shift;
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
  if (!p.training || values == 0) {
    for (std::int64_t c = 0; c < channels; ++c)
      finish_channel(stats, channels, c, p.running_mean[c], p.running_var[c], p);
    return;
  }
  Room& r = room(chunks);
  float *sum = r.first.data(), *square = r.second.data();
  r.shift.resize(static_cast<std::size_t>(channels));
  chunks.first_rows(r.shift.data(), x);
  chunks.each([&](const Chunks::Chunk& c, std::int64_t i) {
    statistics_part(sum + i * width, square + i * width, x + c.offset, c.rows, width, r.shift.data() + c.channel);
  });
  add_up(r.first_total, chunks, r.first);
  add_up(r.second_total, chunks, r.second);
  for (std::int64_t c = 0; c < channels; ++c)
    finish_batch(stats, channels, c, r.shift[static_cast<std::size_t>(c)], r.first_total[c], r.second_total[c], values,
                 p);
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
  const auto part = has_avx512() ? sums_by_16 : sums_by_8;
  chunks.each([&](const Chunks::Chunk& c, std::int64_t i) {
    part({g + c.offset, first + i * width, second + i * width, dy + c.offset, dy2 ? dy2 + c.offset : nullptr,
          y ? y + c.offset : nullptr, x + c.offset, b.stats + c.channel, c.rows, width});
  });
  add_up(r.first_total, chunks, r.first);
  add_up(r.second_total, chunks, r.second);
  for (std::int64_t c = 0; c < channels; ++c)
    finish_gradients(coefficients, channels, c, static_cast<float>(r.first_total[c]),
                     static_cast<float>(r.second_total[c]), chunks.values_per_channel(), b);
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
