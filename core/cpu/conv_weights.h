#pragma once
#include <cstdint>

/// Convolution weights between plain order, [O][I][K] with K = kernel height x width, and the blocked orders of
/// oneDNN's kernels, O and I multiples of 16. All by transposing 16x16 tiles in registers: about 2.5 times as fast as
/// oneDNN's own reorders, which took 12 % of a VGG16-32 step. Exact; AVX-512 only (callers ask has_avx512()).
///   16i16o   [O/16][I/16][K][16 of I][16 of O]     forward and weight gradients
///   16o16i   [O/16][I/16][K][16 of O][16 of I]     direct backward data
namespace laconic::cpu {

void pack_16i16o(float* blocked, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K);
/// plain = blocked, or += with add
void unpack_16i16o(float* plain, const float* blocked, std::int64_t O, std::int64_t I, std::int64_t K, bool add);
void transpose_16i16o_to_16o16i(float* to, const float* from, std::int64_t O, std::int64_t I, std::int64_t K);

}  // namespace laconic::cpu
