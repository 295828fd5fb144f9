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

/// Outputs [begin, end) along one axis whose windows hold an input.
struct Holders {
  std::int64_t begin, end;
};
/// Those that hold input `at`, of `out` windows i * stride - pad … i * stride - pad + kernel.
constexpr Holders holders_of(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                             std::int64_t out) {
  const std::int64_t end = (at + pad) / stride + 1;
  return {at + pad < kernel ? 0 : (at + pad - kernel) / stride + 1, end < out ? end : out};
}
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
/// All of them along an axis, as a formula: kernel > 0: windows of a fixed size. kernel 0: `out` nearly equal ones
/// that together are everything (adaptive).
struct Averages {
  std::int64_t extent, out;  ///< inputs, outputs
  std::int64_t kernel = 0, stride = 0, pad = 0;
  bool count_include_pad = false;

  constexpr Span operator[](std::int64_t i) const {
    if (kernel == 0) {
      const std::int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
      return {begin, end, end - begin};
    }
    const std::int64_t first = i * stride - pad, last = first + kernel < extent + pad ? first + kernel : extent + pad;
    const std::int64_t begin = first > 0 ? first : 0, end = last < extent ? last : extent;
    return {begin, end, count_include_pad ? last - first : end - begin};
  }
  /// The outputs that average input `at`.
  constexpr Holders holders(std::int64_t at) const {
    if (kernel > 0) return holders_of(at, kernel, stride, pad, out);
    return {at * out / extent, ((at + 1) * out - 1) / extent + 1};
  }
  std::vector<Span> spans() const {
    std::vector<Span> all;
    for (std::int64_t i = 0; i < out; ++i) all.push_back((*this)[i]);
    return all;
  }
};
/// y[i, j] = sum of x over rows[i] x columns[j], divided by the product of their extents.
void average_pool_forward(float* y, const float* x, std::int64_t images, std::int64_t h, std::int64_t w,
                          std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns);
void average_pool_backward(float* dx, const float* dy, std::int64_t images, std::int64_t h, std::int64_t w,
                           std::int64_t width, const std::vector<Span>& rows, const std::vector<Span>& columns);

}  // namespace laconic::cpu
