#pragma once
#include "core/cuda/launch.cuh"
#include "core/tensor.h"

namespace laconic::cuda {

/// To the nearest, ties to even; NaN stays NaN. A few integer instructions: kernels that round wait for memory.
__device__ inline BFloat16 rounded(float x) {
  const unsigned u = __float_as_uint(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(nan ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}
__device__ inline float widened(BFloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ inline float widened(float x) { return x; }

}  // namespace laconic::cuda
