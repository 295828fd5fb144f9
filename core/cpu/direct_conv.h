#pragma once
#include "core/kernels/products.h"

/// Convolutions with few channels, of channels_last activations, by their plain sums. In this layout a row of a kernel
/// reads kw C numbers that lie side by side, and the next pixel's begin stride C later. So a row of results is a product
/// of panels (core/cpu/panels.h) whose left side are overlapping rows of the image:
///
///     forward             y[j][o] = sum over rows r and i < kw C of x[row r][j stride C + i] w[r i][o]
///     data gradient       forward of dy, with kernels rotated by 180 degrees and channels exchanged
///     weights' gradient   dw[r i][o] = sum over rows and pixels j of x[row r][j stride C + i] dy[j][o]
///
/// Bits depend on shapes and on the set of instructions, not on the number of threads.
/// cost    scratch memory of the calling thread: one padded image a thread; for the weights' gradient also the kernels
///         in float for every eight images
namespace laconic::cpu {

/// Whether these functions take a convolution: few channels, stride 1, no groups. By shape alone: ranks must agree.
bool takes_direct(const ConvSizes& sizes, Layout input, Layout output);

/// x, dx : [N, C, H, W]   y, dy : [N, O, H', W']   both channels_last   w, dw : [O][C][kh][kw]   b, db : [O] or null.
/// The caller has checked that takes_direct(). y is cut off below 0 with relu.
void direct_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& sizes);
void direct_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& sizes);
/// dw = the gradient, or with add_dw +=. db likewise.
void direct_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                             const ConvSizes& sizes);

}  // namespace laconic::cpu
