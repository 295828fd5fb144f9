#pragma once
#include <algorithm>
#include <cstdint>

#include "core/cpu/panels.h"
#include "core/cpu/winograd_transforms.h"
#include "core/kernels/products.h"

/// Tiles of activations, and kernels, between where they lie and the points' domain (core/cpu/convolutions.h).
namespace laconic::cpu::winograd {

// --------------------------------------------------------------------------------------------------- images, tiles

/// An activation, by blocks of 16 channels, whatever its layout.
template <class T>
struct Image {
  T* data;
  std::int64_t h, w;
  std::int64_t image, block, row, pixel;  ///< strides
};
template <class T>
Image<T> image_of(T* data, Layout layout, std::int64_t c, std::int64_t h, std::int64_t w) {
  if (layout == Layout::channels_last) return {data, h, w, h * w * c, kBlock, w * c, c};
  return {data, h, w, h * w * c, h * w * kBlock, w * kBlock, kBlock};
}

/// Tiles of M x M outputs, image by image, row by row.
struct Tiles {
  std::int64_t down, across, all;
  struct Place {
    std::int64_t image, row, column;
  };
  Place operator[](std::int64_t t) const {
    const std::int64_t within = t % (down * across);
    return {t / (down * across), within / across, within % across};
  }
};
template <int M>
Tiles tiles_of(std::int64_t n, std::int64_t h, std::int64_t w) {
  const std::int64_t down = (h + M - 1) / M, across = (w + M - 1) / M;
  return {down, across, n * down * across};
}

/// Values in the points' domain, as [point][block of channels][row][16]. Rows are tiles, or the other channels of
/// kernels. The stride of points is an odd number of cache lines: with a power of two all points would fall into few
/// sets of the cache.
struct Domain {
  float* data;
  std::int64_t rows, point;  ///< rows of a block; stride of points
  static std::int64_t stride(std::int64_t blocks, std::int64_t rows) { return (blocks * rows | 1) * kBlock; }
  float* at(std::int64_t p, std::int64_t block, std::int64_t row) const {
    return data + p * point + (block * rows + row) * kBlock;
  }
  Columns columns(std::int64_t p, std::int64_t block) const { return {at(p, block, 0), rows * kBlock}; }
  /// All points, kSide x kSide, of some channels of a row.
  template <int kSide, class V>
  Square<V, float> points(std::int64_t block, std::int64_t row, std::int64_t lane) const {
    return {at(0, block, row) + lane, kSide * point, point};
  }
};

inline constexpr float kNothing[kBlock] = {};

/// kSide x kSide pixels from (top, left) on, of a block of channels; zeros outside of the image.
template <int kSide, class V>
LACONIC_INLINE void load_patch(V* d, const float* image, const Image<const float>& x, std::int64_t top,
                               std::int64_t left, std::int64_t lane) {
  const std::int64_t first = top * x.row + left * x.pixel + lane;
  for (int i = 0; i < kSide; ++i) {
    const bool there = top + i >= 0 && top + i < x.h;
    for (int j = 0; j < kSide; ++j) {
      const bool is_pixel = there && left + j >= 0 && left + j < x.w;
      load(d[i * kSide + j], is_pixel ? image + (first + i * x.row + j * x.pixel) : kNothing);
    }
  }
}

/// Tiles [first, first + count) of blocks [b0, b1) of x: patches that begin `pad` before their tile.
template <class Matrix, int kStep, class V>
LACONIC_INLINE void transform_tiles(const Domain& to, const Image<const float>& x, const Tiles& tiles, int pad,
                                    std::int64_t first, std::int64_t count, std::int64_t b0, std::int64_t b1) {
  constexpr int kTaps = Matrix::kTaps;
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  for (std::int64_t b = b0; b < b1; ++b)
    for (std::int64_t t = 0; t < count; ++t) {
      const Tiles::Place place = tiles[first + t];
      const std::int64_t top = place.row * kStep - pad, left = place.column * kStep - pad;
      const bool inside = top >= 0 && left >= 0 && top + kTaps <= x.h && left + kTaps <= x.w;
      const float* const image = x.data + place.image * x.image + b * x.block;
      for (std::int64_t lane = 0; lane < kBlock; lane += kLanes) {
        const Square<V, float> points = to.points<Matrix::kSide, V>(b, t, lane);
        if (inside) {
          const float* const corner = image + (top * x.row + left * x.pixel + lane);
          tile_to_points<Matrix>(points, Square<V, const float>{corner, x.row, x.pixel});
        } else {
          V patch[kTaps * kTaps];
          load_patch<kTaps>(patch, image, x, top, left, lane);
          tile_to_points<Matrix>(points, Square<V, const V>{patch, kTaps, 1});
        }
      }
    }
}

/// Tells the processor to fetch M x M pixels of block b. They begin `shift` rows and columns after tile t. The rows of
/// a tile are too short for it to foresee them.
template <int M>
LACONIC_INLINE void fetch_tile(const Image<const float>& x, const Tiles& tiles, int shift, std::int64_t t,
                               std::int64_t b) {
  const Tiles::Place place = tiles[t];
  const std::int64_t top = place.row * M + shift, left = place.column * M + shift;
  const std::int64_t high = std::min<std::int64_t>(M, x.h - top), wide = std::min<std::int64_t>(M, x.w - left);
  const float* const from = x.data + place.image * x.image + b * x.block + top * x.row + left * x.pixel;
  for (std::int64_t i = 0; i < high; ++i)
    for (std::int64_t j = 0; j < wide; ++j) __builtin_prefetch(from + i * x.row + j * x.pixel, 0, 2);
}

/// Outputs of tiles [first, first + count), rows of m, for block b.
template <int M, class V>
LACONIC_INLINE void write_outputs(const Image<float>& y, const Domain& m, std::int64_t block_of_m, const Tiles& tiles,
                                  std::int64_t first, std::int64_t count, std::int64_t b, const float* bias,
                                  bool relu) {
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tiles::Place place = tiles[first + t];
    const std::int64_t top = place.row * M, left = place.column * M;
    const std::int64_t high = std::min<std::int64_t>(M, y.h - top), wide = std::min<std::int64_t>(M, y.w - left);
    float* const to = y.data + place.image * y.image + b * y.block + top * y.row + left * y.pixel;
    for (std::int64_t lane = 0; lane < kBlock; lane += kLanes) {
      V out[M * M], offset{};
      tile_from_points<Output<M>>(Square<V, V>{out, M, 1}, m.points<M + 2, V>(block_of_m, t, lane));
      if (bias) load(offset, bias + b * kBlock + lane);
      for (std::int64_t i = 0; i < high; ++i)
        for (std::int64_t j = 0; j < wide; ++j) {
          V v = out[i * M + j] + offset;
          if (relu) v = v < 0.0f ? V{} : v;
          store(to + i * y.row + j * y.pixel + lane, v);
        }
    }
  }
}

// --------------------------------------------------------------------------------------------------------- kernels

/// Kernels of C inputs to O outputs, as the direction reads them. u(in, out): forward in = c, out = o; the data's
/// gradient in = o, out = c, rotated.
struct Kernels {
  const float* w;  ///< [O][C][3][3]
  std::int64_t c;
  bool rotated;
};

/// u [point][out block][in row][16 of out] = the kernels of out blocks [k0, k1) and in blocks [c0, c1) in the points'
/// domain. u's first block is k0, its first row 16 c0.
template <int M, class V>
LACONIC_INLINE void transform_kernels(const Domain& u, const Kernels& kernels, std::int64_t c0, std::int64_t c1,
                                      std::int64_t k0, std::int64_t k1) {
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  float taps[kBlock][9][kBlock];  // [in][tap][out]
  for (std::int64_t k = k0; k < k1; ++k)
    for (std::int64_t c = c0; c < c1; ++c) {
      for (std::int64_t a = 0; a < kBlock; ++a) {  // rows of w: its outputs
        const std::int64_t o = kBlock * (kernels.rotated ? c : k) + a, first = kBlock * (kernels.rotated ? k : c);
        const float* const from = kernels.w + (o * kernels.c + first) * 9;
        for (std::int64_t i = 0; i < kBlock; ++i)
          for (int j = 0; j < 9; ++j) {
            if (kernels.rotated)
              taps[a][8 - j][i] = from[i * 9 + j];
            else
              taps[i][j][a] = from[i * 9 + j];
          }
      }
      for (std::int64_t in = 0; in < kBlock; ++in)
        for (std::int64_t lane = 0; lane < kBlock; lane += kLanes) {
          const Square<V, const float> g{&taps[in][0][lane], 3 * kBlock, kBlock};
          tile_to_points<Kernel<M>>(u.points<M + 2, V>(k - k0, (c - c0) * kBlock + in, lane), g);
        }
    }
}

/// g [16 of out][16 of in][3][3] into dw, from the products of two blocks of channels: s [point][in][16 of out].
template <int M, class V>
LACONIC_INLINE void write_gradient(float* dw, bool add, const float* s, std::int64_t point, std::int64_t C,
                                   std::int64_t c, std::int64_t k) {
  constexpr int kSide = M + 2;
  constexpr std::int64_t kLanes = sizeof(V) / sizeof(float);
  float taps[kBlock][9][kBlock];  // [in][tap][out]
  for (std::int64_t in = 0; in < kBlock; ++in)
    for (std::int64_t lane = 0; lane < kBlock; lane += kLanes) {
      const Square<V, const float> points{s + in * kBlock + lane, kSide * point, point};
      tile_from_points<Kernel<M>>(Square<V, float>{&taps[in][0][lane], 3 * kBlock, kBlock}, points);
    }
  for (std::int64_t o = 0; o < kBlock; ++o) {
    float* const to = dw + ((k * kBlock + o) * C + c * kBlock) * 9;
    for (std::int64_t in = 0; in < kBlock; ++in)
      for (int j = 0; j < 9; ++j) to[in * 9 + j] = add ? to[in * 9 + j] + taps[in][j][o] : taps[in][j][o];
  }
}

}  // namespace laconic::cpu::winograd
