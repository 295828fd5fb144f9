#pragma once
#include <cstdint>

#include "core/tensor.h"

/// Convolution weights between plain order, [O][I][K] with K = kernel height x width, and that of convolutions of
/// channels-last images, [O][K][I], in either type. Each fewer than 2^31 elements.
namespace laconic::cuda {

void pack_weights(float* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K);
void pack_weights(BFloat16* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K);
/// plain = packed, or += with add
void unpack_weights(float* plain, const float* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add);
void unpack_weights(float* plain, const BFloat16* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add);

}  // namespace laconic::cuda
