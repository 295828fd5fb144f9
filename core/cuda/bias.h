#pragma once
#include <cstdint>

#include "core/tensor.h"

/// What follows a matrix product or a convolution of channels-last images, in one pass over its result.
namespace laconic::cuda {

/// y = x + b, then ReLU if asked.   x, y : [rows, columns], both with rows `stride` apart   b : [columns] or null
/// x may be y.
void add_bias(float* y, const float* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu);
void add_bias(float* y, const BFloat16* x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu);

}  // namespace laconic::cuda
