#pragma once
#include <cstdint>

#include "core/dispatch.h"
#include "core/tensor.h"

/// Kernels over activations [N, C, H, W] and [N, C].
namespace laconic {

/// Copies x [N, C, H, W] from one layout to another: every element moved once. blocked16 needs C a multiple of 16, and
/// the CPU: on a CUDA device it throws ShapeError.
LACONIC_DECLARE_REAL(void convert_layout(Real* y, Layout to, const Real* x, Layout from, std::int64_t n, std::int64_t c,
                                         std::int64_t hw));

/// An activation as kernels see it, whatever the layout: [outer][groups][rows][width], channels = groups * width, the
/// channel varying fastest within `width`.   channels_last: groups 1, width C.   blocked16: groups C/16, width 16.
/// plain with one pixel (or 2-d, [N, C]): rows 1, width C, groups 1.   On a CUDA device there is one group.
struct ChannelView {
  std::int64_t outer, groups, rows, width;
};
/// Throws ShapeError for a plain layout with more than one pixel: convert first.
ChannelView channel_view(const Tensor& x);

/// Copies `rows` runs of `width` floats, `to_stride` and `from_stride` apart.
LACONIC_DECLARE(void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride,
                               std::int64_t rows, std::int64_t width));
/// Adds them instead.
LACONIC_DECLARE(void add_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride,
                              std::int64_t rows, std::int64_t width));

/// Every second pixel and `shift` channels later: y[n, c + shift, i, j] = x[n, c, 2i, 2j], 0 in the other channels.
/// x is [N, C, h, w] as `in`, y is [N, C', (h + 1) / 2, (w + 1) / 2] as `out`.
LACONIC_DECLARE_REAL(void shortcut_forward(Real* y, const Real* x, const ChannelView& out, const ChannelView& in,
                                           std::int64_t h, std::int64_t w, std::int64_t shift));
/// dx[n, c, 2i, 2j] = dy[n, c + shift, i, j], 0 elsewhere.
LACONIC_DECLARE_REAL(void shortcut_backward(Real* dx, const Real* dy, const ChannelView& out, const ChannelView& in,
                                            std::int64_t h, std::int64_t w, std::int64_t shift));

struct LrnShape {
  int size;
  float alpha, beta, k;
};
/// y[c] = x[c] d[c]^-beta,  d[c] = k + alpha / size * sum of x^2 over channels c - size / 2 … c + (size - 1) / 2
LACONIC_DECLARE(void lrn_forward(float* y, const float* x, const ChannelView& v, const LrnShape& s));
/// dx[c] = dy[c] d[c]^-beta - 2 alpha beta / size x[c] sum_c' dy[c'] x[c'] d[c']^(-beta - 1), over c' whose window
/// holds c
LACONIC_DECLARE(void lrn_backward(float* dx, const float* dy, const float* x, const ChannelView& v, const LrnShape& s));

// Batch normalisation with addition and ReLU folded into its two passes, each way. The CPU has kernels of its own,
// because oneDNN's write past the caches, so that the next convolution reads from memory (10 % of a ResNet-20 step).
// Sums go by fixed chunks of rows, floats within a chunk and doubles across: the same for any number of threads.

struct BatchNormParameters {
  const float *gamma, *beta;          ///< [C]
  float *running_mean, *running_var;  ///< [C]; they change in training
  bool training;                      ///< false: the running statistics are taken
  float momentum, epsilon;
};
/// stats [4, C] = mean, 1 / sqrt(variance + epsilon), and scale and offset for batch_norm_apply. The (biased) variance
/// of the batch is computed around each channel's first value, against cancellation.
LACONIC_DECLARE_REAL(void batch_norm_statistics(float* stats, const Real* x, const ChannelView& v,
                                                const BatchNormParameters& p));

/// y = x * scale[c] + offset[c] (+ residual), then ReLU if asked. residual may be null. y may be x.
LACONIC_DECLARE_REAL(void batch_norm_apply(Real* y, const Real* x, const ChannelView& v, const float* scale,
                                           const float* offset, const Real* residual, bool relu));

struct BatchNormBackward {
  const float *stats, *gamma;      ///< stats of the forward pass [4, C]
  bool training;                   ///< false: mean and variance are constants
  float *dgamma, *dbeta;           ///< [C]; null: not wanted
  bool add_to_gamma, add_to_beta;  ///< true: the sum with what is there
};
/// First backward pass: g = (dy + dy2) where y > 0 (y null: everywhere), dgamma and dbeta, and coefficients [3, C] for
/// the second. dy2 may be null; g may be dy.
LACONIC_DECLARE_REAL(void batch_norm_backward_sums(Real* g, float* coefficients, const Real* dy, const Real* dy2,
                                                   const Real* y, const Real* x, const ChannelView& v,
                                                   const BatchNormBackward& b));

/// Second backward pass: dx = coefficients[0][c] * g + [1][c] * x + [2][c]. dx may be g.
LACONIC_DECLARE_REAL(void batch_norm_backward_data(Real* dx, const Real* g, const Real* x, const ChannelView& v,
                                                   const float* coefficients));

// Pooling goes over [images][h][w][width]: images = outer * groups of a ChannelView.

struct PoolShape {
  std::int64_t images, h, w, out_h, out_w, width;
  int kernel, stride, pad;
  /// Whether windows are 2x2, do not overlap and do not leave the image: then each input is in one at most.
  bool disjoint() const { return kernel == 2 && stride == 2 && pad == 0 && 2 * out_w <= w && 2 * out_h <= h; }
};
/// y = largest of each window; index (if not null) = its place kh * kernel + kw in the window, the first of equals.
/// NaN counts as largest. kernel <= 16
LACONIC_DECLARE_REAL(void max_pool_forward(Real* y, std::uint8_t* index, const Real* x, const PoolShape& s));
/// dx[where the largest was] = dy (sums where windows overlap), 0 elsewhere.
LACONIC_DECLARE_REAL(void max_pool_backward(Real* dx, const Real* dy, const std::uint8_t* index, const PoolShape& s));

namespace cpu {
/// Both for some images on one thread. The functions of lanes go 8 channels at a time, on any processor. The others go
/// 16 at a time, only where has_avx512(), and must agree with them.
void max_forward_lanes(float* y, std::uint8_t* index, const float* x, const PoolShape& s, std::int64_t images);
void max_backward_lanes(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s, std::int64_t images);
void max_forward_avx512(float* y, std::uint8_t* index, const float* x, const PoolShape& s, std::int64_t images);
void max_backward_avx512(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                         std::int64_t images);
}  // namespace cpu

/// Outputs [begin, end) along one axis whose windows hold an input.
struct Holders {
  std::int64_t begin, end;
};
/// Those that hold input `at`, of `out` windows i * stride - pad … i * stride - pad + kernel. Sides of images have 31
/// bits: a GPU divides by 64 bits in over thirty instructions.
constexpr Holders holders_of(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                             std::int64_t out) {
  const auto strides = [stride](std::int64_t x) -> std::int64_t {
    return static_cast<std::uint32_t>(x) / static_cast<std::uint32_t>(stride);
  };
  const std::int64_t end = strides(at + pad) + 1;
  return {at + pad < kernel ? 0 : strides(at + pad - kernel) + 1, end < out ? end : out};
}

/// The output coordinates of an averaging pool along one axis. kernel > 0: windows of a fixed size. kernel 0: `out`
/// nearly equal ones that together are everything (adaptive).
struct Averages {
  std::int64_t extent, out;  ///< inputs, outputs
  std::int64_t kernel = 0, stride = 0, pad = 0;
  bool count_include_pad = false;

  /// Inputs [begin, end), divided by `extent`.
  struct Window {
    std::int64_t begin, end, extent;
  };
  constexpr Window operator[](std::int64_t i) const {
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
};
/// y[i, j] = sum of x over rows[i] x columns[j], divided by the product of their extents.
LACONIC_DECLARE_REAL(void average_pool_forward(Real* y, const Real* x, std::int64_t images, std::int64_t width,
                                               const Averages& rows, const Averages& columns));
LACONIC_DECLARE_REAL(void average_pool_backward(Real* dx, const Real* dy, std::int64_t images, std::int64_t width,
                                                const Averages& rows, const Averages& columns));

}  // namespace laconic
