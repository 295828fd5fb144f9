#pragma once
#include <cstddef>

namespace laconic::compress::cuda {

/// compress/layer_drop.h, accumulate_layer: *sum, in device memory, becomes the sum of magnitudes or of squares.
/// accumulated : null, or += gradient
void accumulate_layer(const float* gradient, float* accumulated, std::size_t n, bool squares, double* sum);

}  // namespace laconic::compress::cuda
