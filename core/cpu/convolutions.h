#pragma once
#include "core/kernels/products.h"

/// Our own convolutions. Each takes_ function goes by shapes and layouts
/// alone, because ranks must agree; the caller of the others has asked it.
///   x, dx : [N, C, H, W] in the layout `input`   y, dy : [N, O, H', W'] in `output`   w, dw : [O][C][kh][kw]
///   b, db : [O] or null   y is cut off below 0 with relu.   dw = the gradient, or += with add_dw; db in the same way
/// Bits depend on shapes and on the set of instructions, not on the number of threads. Sums are in float. Scratch
/// memory is the calling thread's.
namespace laconic::cpu {

// 3x3 kernels and stride 1 by Winograd's minimal filtering: F(4x4, 3x3) with 36 products for 16 outputs that take 144
// directly, and F(2x2, 3x3) with 16 for 4 where a result is at most 2 high and 2 wide. Activations are channels_last or
// blocked16, channels multiples of 16. Each 6x6 tile d of the input and each kernel g go to the points' domain, where a
// convolution is 36 independent products over channels, and the results come back:
//
//     forward             y = A' [(G g G') * (B' d B)] A     summed over input channels
//     data gradient       forward of dy, with kernels rotated by 180 degrees and channels exchanged
//     weights' gradient   dg = G' [sum over tiles of (B' d B) * (A dy A')] G
//
// Against sums in double the largest error over the RMS of the result is below 3e-5 for outputs, 5e-5 for weights (a
// direct sum in float: 1e-5). A NaN or an infinity in a tile makes all results of that tile NaN.
//   cost    scratch: four times the kernels, or 10 MB, and two blocks of tiles a thread
//   source  Lavin and Gray 2016, "Fast algorithms for convolutional neural networks", with the points 0, +-5/8, +-3/2
//           in place of 0, +-1, +-2: as many operations, a quarter of the error

/// 3x3, stride 1, channels in sixteens, more than one pixel.
bool takes_winograd(const ConvSizes& sizes, Layout input, Layout output);
void winograd_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& sizes,
                      Layout input, Layout output);
void winograd_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& sizes, Layout input,
                            Layout output);
void winograd_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                               const ConvSizes& sizes, Layout input, Layout output);

// channels_last activations with stride 1, by their plain sums. In this layout a row of a kernel reads kw C numbers
// that lie side by side, and the next pixel's begin C later. So a row of results is a product of panels
// (core/cpu/panels.h) whose left side is rows of the image that overlap:
//
//     forward             y[j][o] = sum over rows r and i < kw C of x[row r][j C + i] w[r i][o]
//     data gradient       forward of dy, with kernels rotated by 180 degrees and channels exchanged
//     weights' gradient   dw[r i][o] = sum over rows and pixels j of x[row r][j C + i] dy[j][o]
//
// The largest error over the RMS of the result is below 1e-5.
//   cost    scratch: an image a thread, padded; for the weights' gradient also a copy of the kernels for each chunk of
//           images, 8 MB or four copies at most

/// At most 16 channels in and out, or at least 800 numbers in a sum and channels in sixteens; stride 1, no groups or
/// dilation, less padding than kernel.
bool takes_direct(const ConvSizes& sizes, Layout input, Layout output);
void direct_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& sizes);
void direct_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& sizes);
void direct_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                             const ConvSizes& sizes);

// Weights' gradients of 1x1 convolutions, which are products of matrices: dw[o][c] = sum over pixels of dy[o] x[c].
// Pixels are copied, some hundred at a time, into panels of 16 channels that stay in a near cache. oneDNN 2.6's kernel
// for AVX2 took 1.06 to 1.9 times as long at shapes of ResNet-50 and GoogLeNet (Zen 3). Errors are as of direct sums.
//   cost    scratch: the weights, and a block of pixels of x and dy

/// 1x1, without groups or padding, channels in sixteens, channels_last.
bool takes_pointwise(const ConvSizes& sizes, Layout input, Layout output);
void pointwise_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                                const ConvSizes& sizes);

}  // namespace laconic::cpu
