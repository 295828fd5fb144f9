#include "core/cpu/winograd.h"

#include <algorithm>

#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"
#include "core/cpu/winograd_tiles.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

using namespace winograd;

// ------------------------------------------------------------------------------------------------------ directions

constexpr std::int64_t kFewTiles =
    160;  // with at most so many all are done at once, and each kernel is transformed where it is used

/// y = x convolved with the kernels, `pad` zeros around x. C, O: channels of x and y.
template <int M>
void convolve(const Image<float>& y, const Image<const float>& x, const Kernels& kernels, const float* bias, bool relu,
              std::int64_t n, std::int64_t C, std::int64_t O, int pad) {
  constexpr std::int64_t kPoints = (M + 2) * (M + 2);
  const std::int64_t c_blocks = C / kBlock, o_blocks = O / kBlock;
  const Tiles tiles = tiles_of<M>(n, y.h, y.w);
  const std::int64_t threads = kernel_threads();
  if (C > 128 && tiles.all <= kFewTiles) {
    constexpr std::int64_t kOut = 2, kIn = 4;  // blocks of kernels that are transformed together
    const std::int64_t v_point = Domain::stride(c_blocks, tiles.all), m_point = Domain::stride(kOut, tiles.all),
                       u_point = Domain::stride(kOut, kIn * kBlock);
    const std::int64_t groups = (o_blocks + kOut - 1) / kOut, parts = std::min(threads, groups);
    float* const memory = kernel_scratch(static_cast<std::size_t>(kPoints * (v_point + parts * (m_point + u_point))));
    const Domain v{memory, tiles.all, v_point};
    parallel_for(c_blocks, 1, [&](std::int64_t b0, std::int64_t b1) {
      with_vectors([&]<class Isa>() {
        transform_tiles<Data<M>, M, typename Isa::Vector>(v, x, tiles, pad, 0, tiles.all, b0, b1);
      });
    });
    in_parts(parts, [&](std::int64_t part) {
      float* const mine = memory + kPoints * (v_point + part * (m_point + u_point));
      const Domain m{mine, tiles.all, m_point}, u{mine + kPoints * m_point, kIn * kBlock, u_point};
      with_vectors([&]<class Isa>() {
        for (std::int64_t g = groups * part / parts; g < groups * (part + 1) / parts; ++g) {
          const std::int64_t k0 = g * kOut, k1 = std::min(o_blocks, k0 + kOut);
          for (std::int64_t c0 = 0; c0 < c_blocks; c0 += kIn) {
            const std::int64_t c1 = std::min(c_blocks, c0 + kIn);
            transform_kernels<M, typename Isa::Vector>(u, kernels, c0, c1, k0, k1);
            for (std::int64_t p = 0; p < kPoints; ++p)
              product<1, kBlock, Isa>(m.columns(p, 0), c0 > 0, v.at(p, c0, 0), tiles.all * kBlock, u.columns(p, 0),
                                      k1 - k0, c1 - c0, kBlock, tiles.all);
          }
          for (std::int64_t k = k0; k < k1; ++k)
            write_outputs<M, typename Isa::Vector>(y, m, k - k0, tiles, 0, tiles.all, k, bias, relu);
        }
      });
    });
    return;
  }
  const std::int64_t length = C <= 16 ? 96 : C <= 128 ? 24 : 48;  // tiles of a block
  constexpr std::int64_t kOut = 4;                                // blocks of outputs at once
  // Where products are short they do not hide that the next block's pixels come from memory, so each fetches some.
  const bool fetches = C <= 64;
  const std::int64_t blocks = (tiles.all + length - 1) / length, parts = std::min(threads, blocks);
  const std::int64_t u_point = Domain::stride(o_blocks, C), v_point = Domain::stride(c_blocks, length),
                     m_point = Domain::stride(kOut, length);
  float* const memory = kernel_scratch(static_cast<std::size_t>(kPoints * (u_point + parts * (v_point + m_point))));
  parallel_for(o_blocks, 1, [&](std::int64_t k0, std::int64_t k1) {
    const Domain u{memory + k0 * C * kBlock, C, u_point};
    with_vectors([&]<class Isa>() { transform_kernels<M, typename Isa::Vector>(u, kernels, 0, c_blocks, k0, k1); });
  });
  const Domain u{memory, C, u_point};
  in_parts(parts, [&](std::int64_t part) {
    float* const mine = memory + kPoints * (u_point + part * (v_point + m_point));
    const Domain v{mine, length, v_point}, m{mine + kPoints * v_point, length, m_point};
    with_vectors([&]<class Isa>() {
      for (std::int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
        const std::int64_t first = block * length, count = std::min(length, tiles.all - first);
        const std::int64_t next = first + count, ahead = std::min(length, tiles.all - next) * c_blocks;
        transform_tiles<Data<M>, M, typename Isa::Vector>(v, x, tiles, pad, first, count, 0, c_blocks);
        for (std::int64_t k0 = 0; k0 < o_blocks; k0 += kOut) {
          const std::int64_t k1 = std::min(o_blocks, k0 + kOut);
          for (std::int64_t p = 0; p < kPoints; ++p) {
            if (fetches && k0 == 0)
              for (std::int64_t i = ahead * p / kPoints; i < ahead * (p + 1) / kPoints; ++i)
                fetch_tile<M>(x, tiles, 2 - pad, next + i / c_blocks, i % c_blocks);
            product<1, kBlock, Isa>(m.columns(p, 0), false, v.at(p, 0, 0), length * kBlock, u.columns(p, k0), k1 - k0,
                                    c_blocks, kBlock, count);
          }
          for (std::int64_t k = k0; k < k1; ++k)
            write_outputs<M, typename Isa::Vector>(y, m, k - k0, tiles, first, count, k, bias, relu);
        }
      }
    });
  });
}

/// db [16] = or += the sum over all pixels of block b: each row of an image in float, and the rows in double.
template <class V>
LACONIC_INLINE void sum_pixels(float* db, bool add, const Image<const float>& dy, std::int64_t n, std::int64_t b) {
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  for (std::int64_t lane = 0; lane < kBlock; lane += kLanes) {
    double sums[kLanes] = {};
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t r = 0; r < dy.h; ++r) {
        const float* const row = dy.data + i * dy.image + b * dy.block + r * dy.row + lane;
        V of_row{}, v;
        for (std::int64_t j = 0; j < dy.w; ++j) load(v, row + j * dy.pixel), of_row += v;
        for (std::int64_t l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(of_row[l]);
      }
    float* const to = db + b * kBlock + lane;
    for (std::int64_t l = 0; l < kLanes; ++l) to[l] = static_cast<float>(add ? to[l] + sums[l] : sums[l]);
  }
}

template <int M>
void gradient_of_kernels(float* dw, bool add_dw, float* db, bool add_db, const Image<const float>& x,
                         const Image<const float>& dy, std::int64_t n, std::int64_t C, std::int64_t O, int pad) {
  constexpr std::int64_t kPoints = (M + 2) * (M + 2);
  const std::int64_t c_blocks = C / kBlock, o_blocks = O / kBlock, pairs = c_blocks * o_blocks;
  const Tiles tiles = tiles_of<M>(n, dy.h, dy.w);
  // Many channels go by groups of them, whose sums stay in a near cache, over as many tiles as a far one holds. Few
  // channels go by blocks of tiles that stay in a near cache, beside the sums of all.
  constexpr std::int64_t kNear = (256 << 10) / sizeof(float), kFar = (10 << 20) / sizeof(float), kLeast = 24;
  const std::int64_t of_tile = kPoints * (C + O);
  const bool by_groups = pairs > 16 || (C + O > 64 && of_tile * tiles.all <= kFar / 2);
  const std::int64_t length = std::clamp<std::int64_t>(by_groups ? kFar / of_tile : std::max(kLeast, kNear / of_tile),
                                                       1, std::max<std::int64_t>(tiles.all, 1));
  constexpr std::int64_t kIn = 2, kOut = 4;  // blocks of a group
  const std::int64_t groups_in = (c_blocks + kIn - 1) / kIn, groups = groups_in * ((o_blocks + kOut - 1) / kOut);
  const std::int64_t parts = std::min<std::int64_t>(kernel_threads(), groups);
  const std::int64_t v_point = Domain::stride(c_blocks, length), z_point = Domain::stride(o_blocks, length),
                     s_point = Domain::stride(by_groups ? kIn * kOut : pairs, kBlock);
  const std::int64_t s_size = kPoints * s_point * (by_groups ? parts : 1);
  float* const memory = kernel_scratch(static_cast<std::size_t>(kPoints * (v_point + z_point) + s_size));
  const Domain v{memory, length, v_point}, z{memory + kPoints * v_point, length, z_point};
  float* const s = memory + kPoints * (v_point + z_point);

  std::int64_t first = 0;
  do {  // once also where there are no tiles
    const std::int64_t count = std::min(length, tiles.all - first);
    parallel_for(c_blocks + o_blocks, 1, [&](std::int64_t b0, std::int64_t b1) {
      with_vectors([&]<class Isa>() {
        using V = typename Isa::Vector;
        if (b0 < c_blocks) transform_tiles<Data<M>, M, V>(v, x, tiles, pad, first, count, b0, std::min(b1, c_blocks));
        if (b1 > c_blocks)
          transform_tiles<Output<M>, M, V>(z, dy, tiles, 0, first, count, std::max(b0, c_blocks) - c_blocks,
                                           b1 - c_blocks);
      });
    });
    if (by_groups)
      in_parts(parts, [&](std::int64_t part) {
        float* const mine = s + part * kPoints * s_point;
        with_vectors([&]<class Isa>() {
          for (std::int64_t g = groups * part / parts; g < groups * (part + 1) / parts; ++g) {
            const std::int64_t c0 = g % groups_in * kIn, c1 = std::min(c_blocks, c0 + kIn);
            const std::int64_t k0 = g / groups_in * kOut, k1 = std::min(o_blocks, k0 + kOut);
            const auto sums = [&](std::int64_t c, std::int64_t k) {
              return mine + ((k - k0) * kIn + c - c0) * kBlock * kBlock;
            };
            for (std::int64_t p = 0; p < kPoints; ++p)
              for (std::int64_t c = c0; c < c1; ++c)
                product<kBlock, 1, Isa>({sums(c, k0) + p * s_point, kIn * kBlock * kBlock}, false, v.at(p, c, 0), 0,
                                        z.columns(p, k0), k1 - k0, 1, count, kBlock);
            for (std::int64_t c = c0; c < c1; ++c)
              for (std::int64_t k = k0; k < k1; ++k)
                write_gradient<M, typename Isa::Vector>(dw, add_dw || first > 0, sums(c, k), s_point, C, c, k);
          }
        });
      });
    else
      parallel_for(kPoints, 1, [&](std::int64_t p0, std::int64_t p1) {
        // The thread that will transform them fetches most.
        const std::int64_t next = first + count, of_block = std::min(length, tiles.all - next),
                           ahead = of_block * (c_blocks + o_blocks);
        with_vectors([&]<class Isa>() {
          for (std::int64_t p = p0; p < p1; ++p) {
            for (std::int64_t i = ahead * p / kPoints; i < ahead * (p + 1) / kPoints; ++i) {
              const std::int64_t b = i / of_block, t = next + i % of_block;
              b < c_blocks ? fetch_tile<M>(x, tiles, 2 - pad, t, b) : fetch_tile<M>(dy, tiles, 0, t, b - c_blocks);
            }
            for (std::int64_t c = 0; c < c_blocks; ++c)
              product<kBlock, 1, Isa>({s + p * s_point + c * kBlock * kBlock, c_blocks * kBlock * kBlock}, first > 0,
                                      v.at(p, c, 0), 0, z.columns(p, 0), o_blocks, 1, count, kBlock);
          }
        });
      });
    first += length;
  } while (first < tiles.all);
  if (!by_groups)
    with_vectors([&]<class Isa>() {
      for (std::int64_t pair = 0; pair < pairs; ++pair)
        write_gradient<M, typename Isa::Vector>(dw, add_dw, s + pair * kBlock * kBlock, s_point, C, pair % c_blocks,
                                                pair / c_blocks);
    });
  if (db == nullptr) return;
  parallel_for(o_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    with_vectors([&]<class Isa>() {
      for (std::int64_t b = begin; b < end; ++b) sum_pixels<typename Isa::Vector>(db, add_db, dy, n, b);
    });
  });
}

bool by_two(std::int64_t h, std::int64_t w) { return h <= 2 && w <= 2; }

}  // namespace

bool takes_winograd(const ConvSizes& s, Layout input, Layout output) {
  return s.kh == 3 && s.kw == 3 && s.stride == 1 && s.dilation == 1 && s.groups == 1 && s.pad <= 1 &&
         s.c % kBlock == 0 && s.out % kBlock == 0 && s.oh * s.ow > 1 && input != Layout::plain &&
         output != Layout::plain;
}

void winograd_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& s,
                      Layout input, Layout output) {
  const Image<float> to = image_of(y, output, s.out, s.oh, s.ow);
  const Image<const float> from = image_of(x, input, s.c, s.h, s.w);
  (by_two(s.oh, s.ow) ? convolve<2> : convolve<4>)(to, from, {w, s.c, false}, b, relu, s.n, s.c, s.out, s.pad);
}

void winograd_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& s, Layout input,
                            Layout output) {
  const Image<float> to = image_of(dx, input, s.c, s.h, s.w);
  const Image<const float> from = image_of(dy, output, s.out, s.oh, s.ow);
  (by_two(s.h, s.w) ? convolve<2> : convolve<4>)(to, from, {w, s.c, true}, nullptr, false, s.n, s.out, s.c, 2 - s.pad);
}

void winograd_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                               const ConvSizes& s, Layout input, Layout output) {
  const Image<const float> in = image_of(x, input, s.c, s.h, s.w), out = image_of(dy, output, s.out, s.oh, s.ow);
  (by_two(s.oh, s.ow) ? gradient_of_kernels<2> : gradient_of_kernels<4>)(dw, add_dw, db, add_db, in, out, s.n, s.c,
                                                                         s.out, s.pad);
}

}  // namespace laconic::cpu
