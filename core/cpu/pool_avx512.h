#pragma once
#include "core/cpu/pool.h"

namespace laconic::cpu {

/// max_pool_forward and max_pool_backward of whole images on one thread, 16 channels at a time. Only where
/// has_avx512().
void max_forward_avx512(float* y, std::uint8_t* index, const float* x, const PoolShape& s, std::int64_t images);
void max_backward_avx512(float* dx, const float* dy, const std::uint8_t* index, const PoolShape& s,
                         std::int64_t images);

}  // namespace laconic::cpu
