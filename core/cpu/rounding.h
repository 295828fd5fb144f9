#pragma once
#include <cstdint>

#include "core/tensor.h"

namespace laconic::cpu {

/// To the nearest, ties to even; NaN stays NaN.
void to_bf16(BFloat16* y, const float* x, std::int64_t n);
/// Exact.
void from_bf16(float* y, const BFloat16* x, std::int64_t n);

}  // namespace laconic::cpu
