#include <algorithm>
#include <bit>

#include "core/base/parallel.h"
#include "core/cpu/convolutions.h"
#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"
#include "core/cpu/winograd_tiles.h"

namespace laconic::cpu {
namespace {

using namespace winograd;

// ------------------------------------------------------------------------------------------------------ directions

constexpr std::int64_t kFewTiles =
    160;  // at most as many tiles are done at once, and each kernel is transformed where it is used

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

/// Where a gradient of kernels comes from, and goes.
struct KernelGradient {
  float* dw;
  bool add;
  Image<const float> x, dy;
  Tiles tiles;  // the tiles of dy
  std::int64_t C, O;
  int pad;
  std::int64_t c_blocks() const { return C / kBlock; }
  std::int64_t o_blocks() const { return O / kBlock; }
};

/// Many channels: groups of them, whose sums stay in a near cache, over `length` tiles at once.
template <int M>
void by_groups(const KernelGradient& g, std::int64_t length) {
  constexpr std::int64_t kPoints = (M + 2) * (M + 2);
  constexpr std::int64_t kIn = 2, kOut = 4;  // blocks of a group
  const std::int64_t c_blocks = g.c_blocks(), o_blocks = g.o_blocks();
  const std::int64_t groups_in = (c_blocks + kIn - 1) / kIn, groups = groups_in * ((o_blocks + kOut - 1) / kOut);
  const std::int64_t parts = std::min<std::int64_t>(kernel_threads(), groups);
  const std::int64_t v_point = Domain::stride(c_blocks, length), z_point = Domain::stride(o_blocks, length),
                     s_point = Domain::stride(kIn * kOut, kBlock);
  float* const memory = kernel_scratch(static_cast<std::size_t>(kPoints * (v_point + z_point + parts * s_point)));
  const Domain v{memory, length, v_point}, z{memory + kPoints * v_point, length, z_point};
  std::int64_t first = 0;
  do {  // it runs once where there are no tiles, too
    const std::int64_t count = std::min(length, g.tiles.all - first);
    parallel_for(c_blocks + o_blocks, 1, [&](std::int64_t b0, std::int64_t b1) {
      with_vectors([&]<class Isa>() {
        using V = typename Isa::Vector;
        if (b0 < c_blocks)
          transform_tiles<Data<M>, M, V>(v, g.x, g.tiles, g.pad, first, count, b0, std::min(b1, c_blocks));
        if (b1 > c_blocks)
          transform_tiles<Output<M>, M, V>(z, g.dy, g.tiles, 0, first, count, std::max(b0, c_blocks) - c_blocks,
                                           b1 - c_blocks);
      });
    });
    in_parts(parts, [&](std::int64_t part) {
      float* const mine = memory + kPoints * (v_point + z_point + part * s_point);
      with_vectors([&]<class Isa>() {
        for (std::int64_t group = groups * part / parts; group < groups * (part + 1) / parts; ++group) {
          const std::int64_t c0 = group % groups_in * kIn, c1 = std::min(c_blocks, c0 + kIn);
          const std::int64_t k0 = group / groups_in * kOut, k1 = std::min(o_blocks, k0 + kOut);
          const auto sums = [&](std::int64_t c, std::int64_t k) {
            return mine + ((k - k0) * kIn + c - c0) * kBlock * kBlock;
          };
          for (std::int64_t p = 0; p < kPoints; ++p)
            for (std::int64_t c = c0; c < c1; ++c)
              product<kBlock, 1, Isa>({sums(c, k0) + p * s_point, kIn * kBlock * kBlock}, false, v.at(p, c, 0), 0,
                                      z.columns(p, k0), k1 - k0, 1, count, kBlock);
          for (std::int64_t c = c0; c < c1; ++c)
            for (std::int64_t k = k0; k < k1; ++k)
              write_gradient<M, typename Isa::Vector>(g.dw, g.add || first > 0, sums(c, k), s_point, g.C, c, k);
        }
      });
    });
    first += length;
  } while (first < g.tiles.all);
}

/// Few channels: the sums of all in a near cache, beside blocks of `length` tiles. Chunks of tiles have sums of their
/// own, as many whatever the number of threads, which then share nothing.
template <int M>
void by_chunks(const KernelGradient& g, std::int64_t length) {
  constexpr std::int64_t kPoints = (M + 2) * (M + 2);
  const std::int64_t c_blocks = g.c_blocks(), o_blocks = g.o_blocks(), pairs = c_blocks * o_blocks;
  const std::int64_t blocks = std::max<std::int64_t>(1, (g.tiles.all + length - 1) / length);  // at least one
  // A power of two, so that 2, 4 and 8 threads have equal shares; of four blocks or more, or adding up costs what it
  // saves.
  const auto chunks = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(blocks / 4, 1, pairs <= 4 ? 16 : 8))));
  const std::int64_t parts = std::min<std::int64_t>(kernel_threads(), chunks);
  const std::int64_t v_point = Domain::stride(c_blocks, length), z_point = Domain::stride(o_blocks, length),
                     s_point = Domain::stride(pairs, kBlock), of_chunk = kPoints * s_point;
  float* const memory =
      kernel_scratch(static_cast<std::size_t>(parts * kPoints * (v_point + z_point) + chunks * of_chunk));
  float* const sums = memory + parts * kPoints * (v_point + z_point);
  in_parts(parts, [&](std::int64_t part) {
    float* const mine = memory + part * kPoints * (v_point + z_point);
    const Domain v{mine, length, v_point}, z{mine + kPoints * v_point, length, z_point};
    with_vectors([&]<class Isa>() {
      using V = typename Isa::Vector;
      const std::int64_t mine_end = chunks * (part + 1) / parts,
                         tiles_end = std::min(g.tiles.all, blocks * mine_end / chunks * length);
      for (std::int64_t chunk = chunks * part / parts; chunk < mine_end; ++chunk) {
        const std::int64_t begin = blocks * chunk / chunks, end = blocks * (chunk + 1) / chunks;
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t first = block * length, count = std::min(length, g.tiles.all - first),
                             next = first + count;
          transform_tiles<Data<M>, M, V>(v, g.x, g.tiles, g.pad, first, count, 0, c_blocks);
          transform_tiles<Output<M>, M, V>(z, g.dy, g.tiles, 0, first, count, 0, o_blocks);
          const std::int64_t all = c_blocks + o_blocks, ahead = std::min(length, tiles_end - next) * all;
          for (std::int64_t p = 0; p < kPoints; ++p) {
            for (std::int64_t i = ahead * p / kPoints; i < ahead * (p + 1) / kPoints; ++i) {
              const std::int64_t t = next + i / all, b = i % all;
              b < c_blocks ? fetch_tile<M>(g.x, g.tiles, 2 - g.pad, t, b)
                           : fetch_tile<M>(g.dy, g.tiles, 0, t, b - c_blocks);
            }
            for (std::int64_t c = 0; c < c_blocks; ++c)
              product<kBlock, 1, Isa>(
                  {sums + chunk * of_chunk + p * s_point + c * kBlock * kBlock, c_blocks * kBlock * kBlock},
                  block > begin, v.at(p, c, 0), 0, z.columns(p, 0), o_blocks, 1, count, kBlock);
          }
        }
      }
    });
  });
  parallel_for(of_chunk / kBlock, 64, [&](std::int64_t from, std::int64_t to) {
    with_vectors([&]<class Isa>() {
      using V = typename Isa::Vector;
      for (float* at = sums + from * kBlock; at < sums + to * kBlock; at += sizeof(V) / sizeof(float)) {
        V sum, other;
        load(sum, at);
        for (std::int64_t chunk = 1; chunk < chunks; ++chunk) load(other, at + chunk * of_chunk), sum += other;
        store(at, sum);
      }
    });
  });
  with_vectors([&]<class Isa>() {
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      write_gradient<M, typename Isa::Vector>(g.dw, g.add, sums + pair * kBlock * kBlock, s_point, g.C, pair % c_blocks,
                                              pair / c_blocks);
  });
}

template <int M>
void gradient_of_kernels(float* dw, bool add_dw, float* db, bool add_db, const Image<const float>& x,
                         const Image<const float>& dy, std::int64_t n, std::int64_t C, std::int64_t O, int pad) {
  const KernelGradient g{dw, add_dw, x, dy, tiles_of<M>(n, dy.h, dy.w), C, O, pad};
  // Floats of a near cache and of a far one, and fewest tiles of a block.
  constexpr std::int64_t kNear = (256 << 10) / sizeof(float), kFar = (10 << 20) / sizeof(float), kLeast = 24;
  const std::int64_t of_tile = (M + 2) * (M + 2) * (C + O), most = std::max<std::int64_t>(g.tiles.all, 1);
  if (g.c_blocks() * g.o_blocks() > 16 || (C + O > 64 && of_tile * g.tiles.all <= kFar / 2))
    by_groups<M>(g, std::clamp<std::int64_t>(kFar / of_tile, 1, most));
  else
    by_chunks<M>(g, std::clamp<std::int64_t>(std::max(kLeast, kNear / of_tile), 1, most));
  if (db == nullptr) return;
  parallel_for(O / kBlock, 1, [&](std::int64_t begin, std::int64_t end) {
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
