#pragma once
#include <cstdint>

#include "core/tensor.h"

namespace laconic::cuda {

/// As core/cpu/layout.h on the selected device, between plain and channels_last. Throws ShapeError for blocked16, which
/// is the CPU's.
void convert_layout(float* y, Layout to, const float* x, Layout from, std::int64_t n, std::int64_t c, std::int64_t hw);

}  // namespace laconic::cuda
