#include "core/cuda/each.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels/images.h"

namespace laconic::cuda {
namespace {

constexpr int kSide = 32, kDown = 8;

/// y[n][j][i] = x[n][i][j] for i < rows, j < columns, by tiles: both sides move whole runs of a tile's side.
template <class Real>
__global__ void __launch_bounds__(kSide* kDown)
    transpose_kernel(Real* y, const Real* x, std::int64_t n, std::int64_t rows, std::int64_t columns) {
  __shared__ Real tile[kSide][kSide + 1];
  const std::int64_t across = (columns + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  for (std::int64_t t = blockIdx.x; t < n * across * down; t += gridDim.x) {
    const std::int64_t image = t / (across * down), i0 = t / across % down * kSide, j0 = t % across * kSide;
    const Real* from = x + image * rows * columns;
    Real* to = y + image * rows * columns;
#pragma unroll
    for (int k = threadIdx.y; k < kSide; k += kDown)
      if (i0 + k < rows && j0 + threadIdx.x < columns)
        tile[k][threadIdx.x] = from[(i0 + k) * columns + j0 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = threadIdx.y; k < kSide; k += kDown)
      if (j0 + k < columns && i0 + threadIdx.x < rows) to[(j0 + k) * rows + i0 + threadIdx.x] = tile[threadIdx.x][k];
    __syncthreads();
  }
}

template <class Real>
void transpose(Real* y, const Real* x, std::int64_t n, std::int64_t rows, std::int64_t columns) {
  if (rows < 8 || columns < 8) {  // a tile would be almost empty; the few long runs share their lines in the cache
    const Divisor by_rows(rows), by_columns(columns);
    return map(n * rows * columns, [=] __device__(std::int64_t at) {
      const auto [column, i] = by_rows(at);
      const auto [image, j] = by_columns(column);
      y[at] = x[(image * rows + i) * columns + j];
    });
  }
  const std::int64_t tiles = n * ((rows + kSide - 1) / kSide) * ((columns + kSide - 1) / kSide);
  launch(transpose_kernel<Real>, static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20)), dim3(kSide, kDown),
         y, x, n, rows, columns);
}

}  // namespace

template <class Real>
void convert_layout(Real* y, Layout to, const Real* x, Layout from, std::int64_t n, std::int64_t c, std::int64_t hw) {
  require<ShapeError>(to != Layout::blocked16 && from != Layout::blocked16,
                      "layout: blocked16 is for the CPU alone. Convert there, and copy then.");
  to == Layout::channels_last ? transpose(y, x, n, c, hw) : transpose(y, x, n, hw, c);
}

template void convert_layout(float*, Layout, const float*, Layout, std::int64_t, std::int64_t, std::int64_t);
template void convert_layout(BFloat16*, Layout, const BFloat16*, Layout, std::int64_t, std::int64_t, std::int64_t);

namespace {

template <int kWide, bool kAdd>
void rows_by(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
             std::int64_t width) {
  const std::int64_t groups = width / kWide;
  const Divisor by_groups(groups);
  map(rows * groups, [=] __device__(std::int64_t at) {
    const auto [row, group] = by_groups(at);
    const std::int64_t column = group * kWide;
    Pack<float, kWide> p = load_pack<kWide>(from + row * from_stride + column);
    float* place = to + row * to_stride + column;
    if (kAdd) {
      const Pack<float, kWide> there = load_pack<kWide>(place);
#pragma unroll
      for (int k = 0; k < kWide; ++k) p.v[k] += there.v[k];
    }
    store_pack<kWide>(place, p);
  });
}
template <bool kAdd>
void move_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width) {
  const bool wide = width % 4 == 0 && to_stride % 4 == 0 && from_stride % 4 == 0 && aligned_for<4>(to, from);
  wide ? rows_by<4, kAdd>(to, to_stride, from, from_stride, rows, width)
       : rows_by<1, kAdd>(to, to_stride, from, from_stride, rows, width);
}

}  // namespace

void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width) {
  move_rows<false>(to, to_stride, from, from_stride, rows, width);
}
void add_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
              std::int64_t width) {
  move_rows<true>(to, to_stride, from, from_stride, rows, width);
}

// Images are channels_last here: [outer][rows][width].
template <class Real>
void shortcut_forward(Real* y, const Real* x, const ChannelView& out, const ChannelView& in, std::int64_t h,
                      std::int64_t w, std::int64_t shift) {
  const std::int64_t to = out.width, from = in.width, half_h = (h + 1) / 2, half_w = (w + 1) / 2;
  const Divisor by_to(to), by_w(half_w), by_h(half_h);
  map(out.outer * out.rows * to, [=] __device__(std::int64_t at) {
    const auto [pixel, channel] = by_to(at);
    const auto [line, j] = by_w(pixel);
    const auto [n, i] = by_h(line);
    const std::int64_t c = channel - shift;
    y[at] = c >= 0 && c < from ? x[((n * h + 2 * i) * w + 2 * j) * from + c] : Real{};
  });
}
template <class Real>
void shortcut_backward(Real* dx, const Real* dy, const ChannelView& out, const ChannelView& in, std::int64_t h,
                       std::int64_t w, std::int64_t shift) {
  const std::int64_t to = out.width, from = in.width, half_h = (h + 1) / 2, half_w = (w + 1) / 2;
  const Divisor by_from(from), by_w(w), by_h(h);
  map(in.outer * in.rows * from, [=] __device__(std::int64_t at) {
    const auto [pixel, c] = by_from(at);
    const auto [line, j] = by_w(pixel);
    const auto [n, i] = by_h(line);
    dx[at] = i % 2 == 0 && j % 2 == 0 ? dy[((n * half_h + i / 2) * half_w + j / 2) * to + c + shift] : Real{};
  });
}

#define LACONIC_INSTANTIATE(Real)                                                                           \
  template void shortcut_forward(Real*, const Real*, const ChannelView&, const ChannelView&, std::int64_t,  \
                                 std::int64_t, std::int64_t);                                               \
  template void shortcut_backward(Real*, const Real*, const ChannelView&, const ChannelView&, std::int64_t, \
                                  std::int64_t, std::int64_t);
LACONIC_INSTANTIATE(float)
LACONIC_INSTANTIATE(BFloat16)
#undef LACONIC_INSTANTIATE

}  // namespace laconic::cuda
