#pragma once
#include <cstdint>

namespace laconic {

/// The plain pass that others are compared with: the sum of |x|, on kernel_threads() threads.
double read_pass(const float* x, std::int64_t n);

}  // namespace laconic
