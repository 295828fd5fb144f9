#pragma once
#include "core/tensor.h"

namespace laconic::cpu {

/// Memory for the kernel that the calling thread runs, aligned as tensors are, undefined: the next call of this thread
/// gives the memory again. It grows to the most that was asked for, and stays.
inline void* kernel_scratch_bytes(std::size_t bytes) {
  thread_local Tensor scratch;  // one for all kernels of a worker, which run one after another
  if (!scratch.defined() || scratch.bytes() < bytes) {
    scratch = {};
    scratch = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8);
  }
  return scratch.raw_data();
}
inline float* kernel_scratch(std::size_t floats) {
  return static_cast<float*>(kernel_scratch_bytes(floats * sizeof(float)));
}

}  // namespace laconic::cpu
