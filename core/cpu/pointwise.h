#pragma once
#include "core/kernels/products.h"

/// Weights' gradients of 1x1 convolutions, which are products of matrices: dw[o][c] = sum over pixels of dy[o] x[c].
/// Pixels are copied, some hundred at a time, into panels of 16 channels (core/cpu/panels.h) that stay in a near cache.
/// oneDNN 2.6's kernel for AVX2 took 1.06 to 1.9 times as long at shapes of ResNet-50 and GoogLeNet (Zen 3).
///
/// Bits depend on shapes and on the set of instructions, not on the number of threads. Sums are in float: against sums
/// in double the largest error over the RMS of the result is below 1e-5. cost    scratch memory of the calling thread:
/// the weights, and a block of pixels of x and dy
namespace laconic::cpu {

/// Whether this function takes a convolution: 1x1, without groups or padding, channels in sixteens. By shape alone:
/// ranks must agree.
bool takes_pointwise(const ConvSizes& sizes, Layout input, Layout output);

/// x : [N, C, H, W]   dy : [N, O, H', W']   both channels_last   dw : [O][C]   db : [O] or null. The caller has checked
/// that takes_pointwise(). dw = the gradient, or with add_dw +=. db likewise.
void pointwise_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                                const ConvSizes& sizes);

}  // namespace laconic::cpu
