#pragma once
#include <cstdint>

#include "core/tensor.h"

/// As core/cpu/rounding.h on the selected device.
namespace laconic::cuda {

void to_bf16(BFloat16* y, const float* x, std::int64_t n);

}  // namespace laconic::cuda
