#pragma once
#include "core/autograd.h"

namespace laconic::inline ops {

struct Conv2dOptions {
  int stride = 1, pad = 0, dilation = 1, groups = 1;
  bool relu = false;  ///< max(·, 0) of the result in the same pass
};

/// 2-d convolution (cross-correlation).
///   y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] * x[n, c, i*stride + u*dilation - pad, j*stride + v*dilation - pad]
///   x : [N, C, H, W]   w : [out, C/groups, kh, kw]   b : [out] or undefined   ->   y : [N, out, H', W'],
///   H' = (H + 2 pad - dilation (kh - 1) - 1) / stride + 1, rounded down; W' in the same way.
///   With groups, output channels of group g see the input channels of group g only.
/// Layouts: the result is blocked16 where the processor has AVX-512 and all channels are multiples of 16 (an image may
/// come in plain), channels_last otherwise, and on CUDA devices. 3x3 stride-1 convolutions take
/// Winograd's algorithm by a rule on shapes (core/cpu/convolutions.h), and a CUDA device what cuDNN's heuristic says
/// (core/kernels/products.h), never by timing, so that all ranks compute the same bits. Throws ShapeError if x is not
/// 4-d, channels and groups do not fit, the kernel is larger than the padded image, an option is out of its range, or
/// operands are on different devices.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options);

/// The transposed convolution: y is the gradient of a convolution's input if x is its output's gradient.
///   x : [N, C, H, W]   w : [C, out/groups, kh, kw]   ->   y : [N, out, H', W'],
///   H' = (H - 1) stride - 2 pad + dilation (kh - 1) + output_pad + 1; W' in the same way
/// output_pad is 0, or less than the stride or the dilation. Layouts and errors as of conv2d.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options, int output_pad = 0);

}  // namespace laconic::inline ops
