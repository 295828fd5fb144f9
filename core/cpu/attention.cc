#include "core/kernels/attention.h"

#include <cfloat>

#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"

namespace laconic::cpu {
namespace {

// A head is computed by blocks: `kBlock` queries by kKeys keys forward, kTile by kTile backward. Its matrices lie as
// panels (core/cpu/panels.h), which are operands of products from either side:
//   of the steps, [width / 16][step][16]: on the left with sums over the width, on the right with sums over steps
//   transposed, [steps / 16][width][16]: on the right with sums over the width
// and so do scores, [keys / 16][query][16]. What is beyond the steps or the width is 0.

constexpr std::int64_t kSquare = kBlock * kBlock, kKeys = 256, kTile = 64;

constexpr std::int64_t up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// One head of one sample.
struct Head {
  std::int64_t steps, width, stride, panels;
  std::int64_t padded_steps, padded_width;
  std::int64_t sample, first_element;  ///< the head's place in the dropout mask
  float scale;
  Head(const AttentionSizes& s, std::int64_t unit)
      : steps(s.steps),
        width(s.width),
        stride(3 * s.dim()),
        panels(up(s.width, kBlock) / kBlock),
        padded_steps(up(s.steps, kBlock)),
        padded_width(panels * kBlock),
        sample(unit / s.heads),
        first_element(unit % s.heads * s.steps * up(s.steps, 64)),
        scale(1.0f / std::sqrt(static_cast<float>(s.width))) {}
  std::int64_t size() const { return padded_steps * padded_width; }
};

/// to [panels][`panel` floats, of which rows x 16][16] = factor x, of whose `rows` the first `there` exist.
template <class V>
LACONIC_INLINE void pack(float* to, std::int64_t panel, const float* x, std::int64_t stride, std::int64_t there,
                         std::int64_t rows, std::int64_t width, float factor) {
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  for (std::int64_t c = 0; c < width; c += kBlock, to += panel) {
    const std::int64_t count = std::min(kBlock, width - c);
    for (std::int64_t r = 0; r < there; ++r) {
      const float* const from = x + r * stride + c;
      float* const row = to + r * kBlock;
      if (count == kBlock) {
        for (std::int64_t l = 0; l < kBlock; l += kLanes) {
          V v;
          load(v, from + l);
          v *= factor;
          store(row + l, v);
        }
      } else {
        for (std::int64_t l = 0; l < kBlock; ++l) row[l] = l < count ? factor * from[l] : 0.0f;
      }
    }
    std::fill(to + there * kBlock, to + rows * kBlock, 0.0f);
  }
}

/// The other way: x = factor to, times an own factor of each row if there are some.
template <class V>
LACONIC_INLINE void unpack(float* x, std::int64_t stride, const float* from, std::int64_t panel, std::int64_t rows,
                           std::int64_t width, float factor, const float* of_row = nullptr) {
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  for (std::int64_t c = 0; c < width; c += kBlock, from += panel) {
    const std::int64_t count = std::min(kBlock, width - c);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float f = of_row ? of_row[r] : factor;
      const float* const row = from + r * kBlock;
      float* const to = x + r * stride + c;
      if (count == kBlock) {
        for (std::int64_t l = 0; l < kBlock; l += kLanes) {
          V v;
          load(v, row + l);
          v *= f;
          store(to + l, v);
        }
      } else {
        for (std::int64_t l = 0; l < count; ++l) to[l] = f * row[l];
      }
    }
  }
}

/// 8 x 8 of rows of 16.
LACONIC_INLINE void transpose_8(float* to, const float* from) {
  HalfLanes a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) load(a[i], from + i * kBlock);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    a[i + 2] = __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const HalfLanes low = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11),
                    high = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    store(to + i * kBlock, low);
    store(to + (i + 4) * kBlock, high);
  }
}
/// to [16][16] = from [16][16] transposed.
LACONIC_INLINE void transpose(float* to, const float* from) {
  for (std::int64_t i = 0; i < kBlock; i += 8)
    for (std::int64_t j = 0; j < kBlock; j += 8) transpose_8(to + j * kBlock + i, from + i * kBlock + j);
}
/// to [steps / 16][width][16] = what lies as [width / 16][steps][16].
LACONIC_INLINE void transpose_panels(float* to, const float* from, std::int64_t panel, std::int64_t steps,
                                     std::int64_t panels) {
  for (std::int64_t t = 0; t < steps; t += kBlock)
    for (std::int64_t p = 0; p < panels; ++p, to += kSquare) transpose(to, from + p * panel + t * kBlock);
}

/// y[i] = f(y[i], …) of arrays that do not overlap.
template <class F>
LACONIC_INLINE void along(std::int64_t n, F f) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) f(i);
}

/// x [16][16] = value above the diagonal.
LACONIC_INLINE void above_diagonal(float* x, float value) {
  for (int r = 0; r < kBlock; ++r)
    for (int l = 0; l < kBlock; ++l) x[r * kBlock + l] = l > r ? value : x[r * kBlock + l];
}

/// factors [panels of keys][…][16] of the dropout for queries `row` … and keys `column` …, `panel` floats apart: 0, or
/// the scale. column is a multiple of 64.
void draw(float* factors, std::int64_t panel, const Head& h, std::int64_t row, std::int64_t rows, std::int64_t column,
          std::int64_t columns, const AttentionDropout& d) {
  std::uint8_t keep[kKeys];
  const auto sample = d.mask.first_row + static_cast<std::uint32_t>(h.sample);
  for (std::int64_t r = 0; r < rows; ++r) {
    dropout_mask_part(keep, h.first_element + (row + r) * up(h.steps, 64) + column, columns, sample, d.mask);
    for (std::int64_t c = 0; c < columns; c += kBlock)
      for (std::int64_t l = 0; l < kBlock; ++l)
        factors[c / kBlock * panel + r * kBlock + l] = keep[c + l] ? d.scale : 0.0f;
  }
}

/// What a part of the threads works with.
struct ForwardRoom {
  float *k, *v, *block, *q, *o, *scores, *factors;
  static std::int64_t size(const Head& h) { return 2 * h.size() + 3 * kBlock * h.padded_width + 2 * kKeys * kBlock; }
  ForwardRoom(float* at, const Head& h)
      : k(at),
        v(k + h.size()),
        block(v + h.size()),
        q(block + kBlock * h.padded_width),
        o(q + kBlock * h.padded_width),
        scores(o + kBlock * h.padded_width),
        factors(scores + kKeys * kBlock) {}
};

/// For 16 rows at once: `most` and `sum` go on over the keys (Dao et al. 2022, algorithm 1). scores [panels][16][16]
/// become exponentials relative to `most`, and what was added before is to be multiplied by `change`.
LACONIC_INLINE void exponentials(float* scores, std::int64_t panels, bool diagonal, float* most, float* sum,
                                 float* change) {
  float* const last = scores + (panels - 1) * kSquare;
  if (diagonal) above_diagonal(last, -FLT_MAX);
  float side[kSquare], turned[kSquare], next[kBlock];
  std::copy_n(scores, kSquare, side);
  for (std::int64_t p = 1; p < panels; ++p) {
    const float* const s = scores + p * kSquare;
    along(kSquare, [&](std::int64_t i) { side[i] = s[i] > side[i] ? s[i] : side[i]; });
  }
  transpose(turned, side);
  std::copy_n(most, kBlock, next);
  for (int l = 0; l < kBlock; ++l)
    for (int r = 0; r < kBlock; ++r) next[r] = turned[l * kBlock + r] > next[r] ? turned[l * kBlock + r] : next[r];
  for (int r = 0; r < kBlock; ++r) change[r] = bounded_exp(most[r] - next[r]);
  std::copy_n(next, kBlock, most);
  float largest[kSquare], sums[kSquare] = {};
  for (int r = 0; r < kBlock; ++r)
    for (int l = 0; l < kBlock; ++l) largest[r * kBlock + l] = next[r];
  for (std::int64_t p = 0; p < panels; ++p) {
    float* const s = scores + p * kSquare;
    along(kSquare, [&](std::int64_t i) { s[i] = bounded_exp(s[i] - largest[i]); });
    if (diagonal && s == last) above_diagonal(s, 0.0f);
    along(kSquare, [&](std::int64_t i) { sums[i] += s[i]; });
  }
  transpose(turned, sums);
  float total[kBlock] = {};
  for (int l = 0; l < kBlock; ++l)
    for (int r = 0; r < kBlock; ++r) total[r] += turned[l * kBlock + r];
  for (int r = 0; r < kBlock; ++r) sum[r] = sum[r] * change[r] + total[r];
}

template <class Isa>
LACONIC_INLINE void forward(float* y, std::int64_t y_stride, float* log_sums, const float* qkv, const Head& h,
                            const ForwardRoom& m, const AttentionDropout& dropout) {
  using V = typename Isa::Vector;
  const std::int64_t dim = y_stride, panel = h.padded_steps * kBlock;
  for (std::int64_t t = 0; t < h.steps; t += kBlock) {
    const std::int64_t there = std::min(kBlock, h.steps - t);
    pack<V>(m.block, kSquare, qkv + dim + t * h.stride, h.stride, there, kBlock, h.width, 1.0f);
    transpose_panels(m.k + t * h.padded_width, m.block, kSquare, kBlock, h.panels);
    pack<V>(m.v + t * kBlock, panel, qkv + 2 * dim + t * h.stride, h.stride, there, kBlock, h.width, 1.0f);
  }
  for (std::int64_t i = 0; i < h.steps; i += kBlock) {
    const std::int64_t there = std::min(kBlock, h.steps - i);
    pack<V>(m.q, kSquare, qkv + i * h.stride, h.stride, there, kBlock, h.width, h.scale);
    float most[kBlock], sum[kBlock] = {}, change[kBlock];
    std::fill_n(most, kBlock, -FLT_MAX);
    for (std::int64_t k = 0; k <= i; k += kKeys) {
      const std::int64_t keys = std::min(kKeys, i + kBlock - k), panels = keys / kBlock;
      product<1, kBlock, Isa>({m.scores, kSquare}, false, m.q, kSquare,
                              {m.k + k * h.padded_width, h.padded_width * kBlock}, panels, h.panels, kBlock, kBlock);
      exponentials(m.scores, panels, k + keys > i, most, sum, change);
      if (k > 0)
        for (std::int64_t p = 0; p < h.panels; ++p)
          for (std::int64_t r = 0; r < kBlock; ++r)
            along(kBlock, [to = m.o + p * kSquare + r * kBlock, by = change[r]](std::int64_t l) { to[l] *= by; });
      if (dropout.mask.threshold > 0) {
        draw(m.factors, kSquare, h, i, kBlock, k, keys, dropout);
        along(panels * kSquare, [s = m.scores, f = m.factors](std::int64_t at) { s[at] *= f[at]; });
      }
      product<1, kBlock, Isa>({m.o, kSquare}, k > 0, m.scores, kSquare, {m.v + k * kBlock, panel}, h.panels, panels,
                              kBlock, kBlock);
    }
    for (int r = 0; r < kBlock; ++r) most[r] += full_log(sum[r]), sum[r] = 1.0f / sum[r];
    std::copy_n(most, there, log_sums + i);
    unpack<V>(y + i * y_stride, y_stride, m.o, kSquare, there, h.width, 1.0f, sum);
  }
}

struct BackwardRoom {
  float *k, *k_turned, *v_turned, *dk, *dv;  // panels of all steps
  float *q, *dy, *dq;                        // panels of a tile's queries
  float *p, *ds, *factors;                   // a tile's numbers
  float *log_sums, *delta;                   // numbers of a tile's queries, each 16 times
  static std::int64_t size(const Head& h) {
    return 5 * h.size() + 3 * kTile * h.padded_width + 3 * kTile * kTile + 2 * kTile * kBlock;
  }
  BackwardRoom(float* at, const Head& h)
      : k(at),
        k_turned(k + h.size()),
        v_turned(k_turned + h.size()),
        dk(v_turned + h.size()),
        dv(dk + h.size()),
        q(dv + h.size()),
        dy(q + kTile * h.padded_width),
        dq(dy + kTile * h.padded_width),
        p(dq + kTile * h.padded_width),
        ds(p + kTile * kTile),
        factors(ds + kTile * kTile),
        log_sums(factors + kTile * kTile),
        delta(log_sums + kTile * kBlock) {}
};

/// p = e^(p - log of the sum), the probabilities, and ds = p (ds - delta), for n elements; dropout: by its factors.
LACONIC_INLINE void probabilities(float* p, float* ds, const float* log_sums, const float* delta, const float* factors,
                                  std::int64_t n) {
  if (factors == nullptr)
    return along(n, [=](std::int64_t i) {
      const float e = bounded_exp(p[i] - log_sums[i]);
      p[i] = e;
      ds[i] = e * (ds[i] - delta[i]);
    });
  along(n, [=](std::int64_t i) {
    const float e = bounded_exp(p[i] - log_sums[i]), f = factors[i];
    p[i] = e * f;
    ds[i] = e * (f * ds[i] - delta[i]);
  });
}

template <class Isa>
LACONIC_INLINE void backward(float* dqkv, const float* dy, const float* y, std::int64_t y_stride, const float* log_sums,
                             const float* qkv, const Head& h, const BackwardRoom& m, const AttentionDropout& dropout) {
  using V = typename Isa::Vector;
  constexpr std::int64_t kRows = kTile * kBlock;  // the distance between panels of a tile
  const std::int64_t dim = y_stride, panel = h.padded_steps * kBlock, turned = h.padded_width * kBlock;
  // v lies where dv will: it is transposed, then not needed any more.
  pack<V>(m.k, panel, qkv + dim, h.stride, h.steps, h.padded_steps, h.width, 1.0f);
  pack<V>(m.dv, panel, qkv + 2 * dim, h.stride, h.steps, h.padded_steps, h.width, 1.0f);
  transpose_panels(m.k_turned, m.k, panel, h.padded_steps, h.panels);
  transpose_panels(m.v_turned, m.dv, panel, h.padded_steps, h.panels);
  for (std::int64_t i = 0; i < h.steps; i += kTile) {
    const std::int64_t rows = std::min(kTile, h.padded_steps - i), there = std::min(kTile, h.steps - i);
    pack<V>(m.q, kRows, qkv + i * h.stride, h.stride, there, rows, h.width, h.scale);
    pack<V>(m.dy, kRows, dy + i * y_stride, y_stride, there, rows, h.width, 1.0f);
    std::fill_n(m.log_sums, rows * kBlock, 0.0f), std::fill_n(m.delta, rows * kBlock, 0.0f);
    for (std::int64_t r = 0; r < there; ++r) {
      float lanes[kBlock] = {};
      const float *a = dy + (i + r) * y_stride, *b = y + (i + r) * y_stride;
      std::int64_t c = 0;
      for (; c + kBlock <= h.width; c += kBlock)
        for (int l = 0; l < kBlock; ++l) lanes[l] += a[c + l] * b[c + l];
      for (int l = 0; c < h.width; ++c, ++l) lanes[l] += a[c] * b[c];
      for (int half = kBlock / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      std::fill_n(m.delta + r * kBlock, kBlock, lanes[0]);
      std::fill_n(m.log_sums + r * kBlock, kBlock, log_sums[i + r]);
    }
    for (std::int64_t k = 0; k <= i; k += kTile) {
      // On the diagonal each panel of keys is met by the queries from its own first on alone.
      const bool diagonal = k == i;
      const std::int64_t panels = std::min(kTile, rows + i - k) / kBlock, at_once = diagonal ? 1 : panels;
      for (std::int64_t p = 0; p < panels; p += at_once) {
        const std::int64_t first = diagonal ? p * kSquare : 0, count = rows - first / kBlock;
        const std::int64_t of_keys = (k + p * kBlock) * h.padded_width;
        product<1, kBlock, Isa>({m.p + p * kRows + first, kRows}, false, m.q + first, kRows,
                                {m.k_turned + of_keys, turned}, at_once, h.panels, kBlock, count);
        product<1, kBlock, Isa>({m.ds + p * kRows + first, kRows}, false, m.dy + first, kRows,
                                {m.v_turned + of_keys, turned}, at_once, h.panels, kBlock, count);
      }
      const bool drops = dropout.mask.threshold > 0;
      if (drops) draw(m.factors, kRows, h, i, rows, k, panels * kBlock, dropout);
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t first = diagonal ? p * kSquare : 0, at = p * kRows + first, n = rows * kBlock - first;
        probabilities(m.p + at, m.ds + at, m.log_sums + first, m.delta + first, drops ? m.factors + at : nullptr, n);
        if (diagonal) above_diagonal(m.p + at, 0.0f), above_diagonal(m.ds + at, 0.0f);
        const std::int64_t to = (k + p * kBlock) * kBlock;  // the diagonal comes first to each key
        product<kBlock, 1, Isa>({m.dv + to, panel}, !diagonal, m.p + at, 0, {m.dy + first, kRows}, h.panels, 1,
                                n / kBlock, kBlock);
        product<kBlock, 1, Isa>({m.dk + to, panel}, !diagonal, m.ds + at, 0, {m.q + first, kRows}, h.panels, 1,
                                n / kBlock, kBlock);
      }
      for (std::int64_t r = 0; r < rows; r += diagonal ? kBlock : rows)
        product<1, kBlock, Isa>({m.dq + r * kBlock, kRows}, k > 0, m.ds + r * kBlock, kRows, {m.k + k * kBlock, panel},
                                h.panels, diagonal ? r / kBlock + 1 : panels, kBlock, diagonal ? kBlock : rows);
    }
    unpack<V>(dqkv + i * h.stride, h.stride, m.dq, kRows, there, h.width, h.scale);
  }
  unpack<V>(dqkv + dim, h.stride, m.dk, panel, h.steps, h.width, 1.0f);
  unpack<V>(dqkv + 2 * dim, h.stride, m.dv, panel, h.steps, h.width, 1.0f);
}

/// f(Isa, unit, room) for all heads of all samples, on all threads.
template <class Room, class F>
void each_head(const AttentionSizes& s, F f) {
  const Head first(s, 0);
  const std::int64_t units = s.batch * s.heads, parts = std::min<std::int64_t>(kernel_threads(), units);
  const std::int64_t size = up(Room::size(first), kBlock);
  float* const memory = kernel_scratch(static_cast<std::size_t>(parts * size));
  in_parts(parts, [&](std::int64_t part) {
    const Room room(memory + part * size, first);
    with_vectors([&]<class Isa>() {
      for (std::int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit)
        f.template operator()<Isa>(unit, room);
    });
  });
}

/// Where a head's part of a sample begins in [batch, steps, row].
std::int64_t place(const AttentionSizes& s, std::int64_t unit, std::int64_t row) {
  return unit / s.heads * s.steps * row + unit % s.heads * s.width;
}

}  // namespace

void causal_attention(float* y, float* log_sums, const float* qkv, const AttentionSizes& s,
                      const AttentionDropout& dropout) {
  each_head<ForwardRoom>(s, [&]<class Isa>(std::int64_t unit, const ForwardRoom& room) {
    forward<Isa>(y + place(s, unit, s.dim()), s.dim(), log_sums + unit * s.steps, qkv + place(s, unit, 3 * s.dim()),
                 Head(s, unit), room, dropout);
  });
}

void causal_attention_backward(float* dqkv, const float* dy, const float* y, const float* log_sums, const float* qkv,
                               const AttentionSizes& s, const AttentionDropout& dropout) {
  each_head<BackwardRoom>(s, [&]<class Isa>(std::int64_t unit, const BackwardRoom& room) {
    const std::int64_t at = place(s, unit, s.dim()), of_qkv = place(s, unit, 3 * s.dim());
    backward<Isa>(dqkv + of_qkv, dy + at, y + at, s.dim(), log_sums + unit * s.steps, qkv + of_qkv, Head(s, unit), room,
                  dropout);
  });
}

}  // namespace laconic::cpu
