#include "core/cuda/each.cuh"
#include "core/kernels/images.h"

namespace laconic::cuda {
namespace {

/// f(image, row, column, channel) for each pixel of [images][h][w][width] and each group of kWide channels.
template <int kWide, class F>
void for_pixels(std::int64_t images, std::int64_t h, std::int64_t w, std::int64_t width, F f) {
  const std::int64_t groups = width / kWide;
  const Divisor by_groups(groups), by_w(w), by_h(h);
  map(images * h * w * groups, [=] __device__(std::int64_t at) {
    const auto [pixel, group] = by_groups(at);
    const auto [line, column] = by_w(pixel);
    const auto [image, row] = by_h(line);
    f(image, row, column, group * kWide);
  });
}
/// Runs a Kernel of these arguments for all pixels, as many channels at a time as one move takes, where its arrays are
/// aligned to them.
template <template <class, int> class Kernel, class Real, class... Arguments>
void pool(std::int64_t images, std::int64_t h, std::int64_t w, std::int64_t width, bool aligned, Real* to,
          Arguments... arguments) {
  constexpr int kWide = kPerMove<Real>;
  if (aligned && width % kWide == 0)
    for_pixels<kWide>(images, h, w, width, Kernel<Real, kWide>{to, arguments...});
  else
    for_pixels<1>(images, h, w, width, Kernel<Real, 1>{to, arguments...});
}

/// i, a multiple of kWide, in a form that tells the compiler so: else it stores one element at a time.
template <int kWide>
__device__ std::int64_t whole(std::int64_t i) {
  return i / kWide * kWide;
}

template <class Real, int kWide>
struct MaxForward {
  Real* y;
  std::uint8_t* index;
  const Real* x;
  PoolShape s;
  __device__ void operator()(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) const {
    const std::int64_t top = i * s.stride - s.pad, left = j * s.stride - s.pad;
    const int h0 = top < 0 ? static_cast<int>(-top) : 0, w0 = left < 0 ? static_cast<int>(-left) : 0,
              h1 = s.h - top < s.kernel ? static_cast<int>(s.h - top) : s.kernel,
              w1 = s.w - left < s.kernel ? static_cast<int>(s.w - left) : s.kernel;
    Pack<float, kWide> best{};
    Pack<std::uint8_t, kWide> at{};
    for (int a = h0; a < h1; ++a)
      for (int b = w0; b < w1; ++b) {
        const Pack<float, kWide> v = load_pack<kWide>(x + ((n * s.h + top + a) * s.w + left + b) * s.width + c);
        const bool first = a == h0 && b == w0;
#pragma unroll
        for (int k = 0; k < kWide; ++k)
          if (first || v.v[k] > best.v[k] || v.v[k] != v.v[k]) {
            best.v[k] = v.v[k];
            at.v[k] = static_cast<std::uint8_t>(a * s.kernel + b);
          }
      }
    const std::int64_t to = whole<kWide>(((n * s.out_h + i) * s.out_w + j) * s.width + c);
    store_pack<kWide>(y + to, best);
    if (index) store_pack<kWide>(index + to, at);
  }
};

template <class Real, int kWide>
struct MaxBackward {
  Real* dx;
  const Real* dy;
  const std::uint8_t* index;
  PoolShape s;
  __device__ void operator()(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    const Holders rows = holders_of(h, s.kernel, s.stride, s.pad, s.out_h),
                  columns = holders_of(w, s.kernel, s.stride, s.pad, s.out_w);
    Pack<float, kWide> sum{};
    for (std::int64_t i = rows.begin; i < rows.end; ++i)
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        const std::int64_t from = ((n * s.out_h + i) * s.out_w + j) * s.width + c;
        const auto here = static_cast<int>((h - (i * s.stride - s.pad)) * s.kernel + w - (j * s.stride - s.pad));
        const Pack<std::uint8_t, kWide> at = load_pack<kWide>(index + from);
        const Pack<float, kWide> d = load_pack<kWide>(dy + from);
#pragma unroll
        for (int k = 0; k < kWide; ++k) sum.v[k] += at.v[k] == here ? d.v[k] : 0.0f;
      }
    store_pack<kWide>(dx + whole<kWide>(((n * s.h + h) * s.w + w) * s.width + c), sum);
  }
};

template <class Real, int kWide>
struct AverageForward {
  Real* y;
  const Real* x;
  std::int64_t width;
  Averages rows, columns;
  __device__ void operator()(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) const {
    const Averages::Window down = rows[i], across = columns[j];
    Pack<float, kWide> sum{};
    for (std::int64_t h = down.begin; h < down.end; ++h)
#pragma unroll 4
      for (std::int64_t w = across.begin; w < across.end; ++w) {
        const Pack<float, kWide> v = load_pack<kWide>(x + ((n * rows.extent + h) * columns.extent + w) * width + c);
#pragma unroll
        for (int k = 0; k < kWide; ++k) sum.v[k] += v.v[k];
      }
    const float factor = 1.0f / static_cast<float>(down.extent * across.extent);
#pragma unroll
    for (int k = 0; k < kWide; ++k) sum.v[k] *= factor;
    store_pack<kWide>(y + whole<kWide>(((n * rows.out + i) * columns.out + j) * width + c), sum);
  }
};

template <class Real, int kWide>
struct AverageBackward {
  Real* dx;
  const Real* dy;
  std::int64_t width;
  Averages rows, columns;
  __device__ void operator()(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    const Holders down = rows.holders(h), across = columns.holders(w);
    Pack<float, kWide> sum{};
    for (std::int64_t i = down.begin; i < down.end; ++i) {
      const std::int64_t high = rows[i].extent;
      for (std::int64_t j = across.begin; j < across.end; ++j) {
        const float factor = 1.0f / static_cast<float>(high * columns[j].extent);
        const Pack<float, kWide> d = load_pack<kWide>(dy + ((n * rows.out + i) * columns.out + j) * width + c);
#pragma unroll
        for (int k = 0; k < kWide; ++k) sum.v[k] += d.v[k] * factor;
      }
    }
    store_pack<kWide>(dx + whole<kWide>(((n * rows.extent + h) * columns.extent + w) * width + c), sum);
  }
};

}  // namespace

template <class Real>
void max_pool_forward(Real* y, std::uint8_t* index, const Real* x, const PoolShape& s) {
  pool<MaxForward>(s.images, s.out_h, s.out_w, s.width, aligned_for<kPerMove<Real>>(y, x, index), y, index, x, s);
}
template <class Real>
void max_pool_backward(Real* dx, const Real* dy, const std::uint8_t* index, const PoolShape& s) {
  pool<MaxBackward>(s.images, s.h, s.w, s.width, aligned_for<kPerMove<Real>>(dx, dy, index), dx, dy, index, s);
}
template <class Real>
void average_pool_forward(Real* y, const Real* x, std::int64_t images, std::int64_t width, const Averages& rows,
                          const Averages& columns) {
  pool<AverageForward>(images, rows.out, columns.out, width, aligned_for<kPerMove<Real>>(y, x), y, x, width, rows,
                       columns);
}
template <class Real>
void average_pool_backward(Real* dx, const Real* dy, std::int64_t images, std::int64_t width, const Averages& rows,
                           const Averages& columns) {
  pool<AverageBackward>(images, rows.extent, columns.extent, width, aligned_for<kPerMove<Real>>(dx, dy), dx, dy, width,
                        rows, columns);
}

#define LACONIC_INSTANTIATE(Real)                                                                     \
  template void max_pool_forward(Real*, std::uint8_t*, const Real*, const PoolShape&);                \
  template void max_pool_backward(Real*, const Real*, const std::uint8_t*, const PoolShape&);         \
  template void average_pool_forward(Real*, const Real*, std::int64_t, std::int64_t, const Averages&, \
                                     const Averages&);                                                \
  template void average_pool_backward(Real*, const Real*, std::int64_t, std::int64_t, const Averages&, const Averages&);
LACONIC_INSTANTIATE(float)
LACONIC_INSTANTIATE(BFloat16)
#undef LACONIC_INSTANTIATE

}  // namespace laconic::cuda
