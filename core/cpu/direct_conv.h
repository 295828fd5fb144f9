#pragma once
#include "core/kernels/products.h"

/// Convolutions of channels_last activations with stride 1, by their plain sums. In this layout a row of a kernel reads
/// kw C numbers that lie side by side, and the next pixel's begin C later. So a row of results is a product of panels
/// (core/cpu/panels.h) whose left side is rows of the image that overlap:
///
///     forward             y[j][o] = sum over rows r and i < kw C of x[row r][j C + i] w[r i][o]
///     data gradient       forward of dy, with kernels rotated by 180 degrees and channels exchanged
///     weights' gradient   dw[r i][o] = sum over rows and pixels j of x[row r][j C + i] dy[j][o]
///
/// Bits depend on shapes and on the set of instructions, not on the number of threads. Sums are in float: against sums
/// in double the largest error over the RMS of the result is below 1e-5. cost    scratch memory of the calling thread:
/// an image a thread, padded; for the weights' gradient also a copy of
///         the kernels for each chunk of images, 8 MB or four copies at most
namespace laconic::cpu {

/// Whether these functions take a convolution: at most 16 channels in and out, or at least 800 numbers in a sum and
/// channels in sixteens; stride 1, no groups or dilation, less padding than kernel. By shape alone: ranks must agree.
bool takes_direct(const ConvSizes& sizes, Layout input, Layout output);

/// x, dx : [N, C, H, W]   y, dy : [N, O, H', W']   both channels_last   w, dw : [O][C][kh][kw]   b, db : [O] or null.
/// The caller has checked that takes_direct(). y is cut off below 0 with relu.
void direct_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& sizes);
void direct_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& sizes);
/// dw = the gradient, or with add_dw +=. db likewise.
void direct_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                             const ConvSizes& sizes);

}  // namespace laconic::cpu
