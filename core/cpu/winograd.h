#pragma once
#include "core/kernels/products.h"

/// Convolutions with 3x3 kernels and stride 1 by Winograd's minimal filtering: F(4x4, 3x3) with 36 products for 16
/// outputs that take 144 directly, and F(2x2, 3x3) with 16 for 4 where a result is at most 2 high and 2 wide.
/// Activations are channels_last or blocked16, channels multiples of 16.
///
/// Each 6x6 tile d of the input and each kernel g go to the points' domain, where a convolution is 36 independent
/// products over channels, and the results come back:
///
///     forward             y = A' [(G g G') * (B' d B)] A     summed over input channels
///     data gradient       forward of dy, with kernels rotated by 180 degrees and channels exchanged
///     weights' gradient   dg = G' [sum over tiles of (B' d B) * (A dy A')] G
///
/// Bits depend on shapes and on the set of instructions, not on the number of threads. Against sums in double the
/// largest error over the RMS of the result is below 3e-5 for outputs, 5e-5 for weights (a direct sum in float: 1e-5).
/// A NaN or an infinity in a tile makes all results of that tile NaN.
/// cost    scratch memory of the calling thread: four times the kernels, or 10 MB, and two blocks of tiles a thread
/// source  Lavin and Gray 2016, "Fast algorithms for convolutional neural networks", with the points 0, +-5/8, +-3/2
///         in place of 0, +-1, +-2: as many operations, a quarter of the error
namespace laconic::cpu {

/// Whether these functions take a convolution: 3x3, stride 1, channels in sixteens, more than one pixel. By shape
/// alone: ranks must agree.
bool takes_winograd(const ConvSizes& sizes, Layout input, Layout output);

/// x, dx : [N, C, H, W] in the layout `input`   y, dy : [N, O, H', W'] in `output`   w, dw : [O][C][3][3]   b, db : [O]
/// or null. The caller has checked that takes_winograd(). y is cut off below 0 with relu.
void winograd_forward(float* y, const float* x, const float* w, const float* b, bool relu, const ConvSizes& sizes,
                      Layout input, Layout output);
void winograd_backward_data(float* dx, const float* dy, const float* w, const ConvSizes& sizes, Layout input,
                            Layout output);
/// dw = the gradient, or with add_dw +=. db likewise.
void winograd_backward_weights(float* dw, bool add_dw, float* db, bool add_db, const float* x, const float* dy,
                               const ConvSizes& sizes, Layout input, Layout output);

}  // namespace laconic::cpu
