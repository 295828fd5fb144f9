#pragma once
#include <cstdint>

/// What dist computes with values, on a CUDA device. All return at once.
namespace laconic::dist::cuda {

/// sum[i] += addend[i]
void add(float* sum, const float* addend, std::int64_t n);

/// left[i] = x[i] - sent[i], or 0 where that is no finite number. left may be x or sent.
void keep_left(float* left, const float* x, const float* sent, std::int64_t n);

}  // namespace laconic::dist::cuda
