#pragma once
#include <cstddef>

namespace laconic::cpu {

/// Memory for the kernel that the calling thread runs, aligned as tensors are, undefined: the next call of this thread
/// gives the memory again. It grows to the most that was asked for, and stays.
void* kernel_scratch_bytes(std::size_t bytes);
inline float* kernel_scratch(std::size_t floats) {
  return static_cast<float*>(kernel_scratch_bytes(floats * sizeof(float)));
}

}  // namespace laconic::cpu
