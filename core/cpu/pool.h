#pragma once
#include <cstdint>
#include <vector>

/// Pooling kernels over [images][h][w][width] (core/cpu/layout.h, ChannelView: images = outer * groups), vectorised
/// over the channel, which varies fastest.
namespace laconic::cpu {

struct PoolShape {
  std::int64_t images, h, w, out_h, out_w, width;
  int kernel, stride, pad;
};
/// y = largest of each window; index (if not null) = its place kh * kernel + kw in the window, the first of equals.
/// NaN counts as largest. kernel <= 16
void max_pool_forward(float* y, std::uint8_t* index, const float* x, const PoolShape& s);
/// dx[where the largest was] = dy (sums where windows overlap), 0 elsewhere.
void max_pool_backward(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s);

/// The simple versions, on one thread: what runs without AVX-512, and what core/cpu/pool_avx512.cc must agree with.
void max_forward_simple(float* y, std::uint8_t* index, const float* x, const PoolShape& s, std::int64_t images);
void max_backward_simple(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                         std::int64_t images);

/// One output coordinate of an averaging pool along one axis: inputs [begin, end), divided by `extent`.
struct Span {
  std::int64_t begin, end, extent;
};
/// y[i, j] = sum of x over rows[i] x columns[j], divided by the product of their extents.
void average_pool_forward(float* y, const float* x, std::int64_t images, std::int64_t h, std::int64_t w,
                          std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns);
void average_pool_backward(float* dx, const float* dy, std::int64_t images, std::int64_t h, std::int64_t w,
                           std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns);

}  // namespace laconic::cpu
