#pragma once
#include <cstdint>

/// What dist computes with values, on a CUDA device. Returns at once.
namespace laconic::dist::cuda {

/// left[i] = x[i] - sent[i], or 0 where that is no finite number. left may be x or sent.
void keep_left(float* left, const float* x, const float* sent, std::int64_t n);

}  // namespace laconic::dist::cuda
