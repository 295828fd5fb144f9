#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/codecs/draws.h"

/// Kernels of the codecs whose payloads have a known length, for device memory. Payloads may begin at any byte.
namespace laconic::compress::cuda {

// compress/codecs/short_floats.cc: binary16; and the upper 32 - cut bits of every value, packed, or rounded to 16
void to_fp16(const float* x, std::size_t n, std::byte* to);
void from_fp16(const std::byte* from, std::size_t n, float* x);
void to_upper_bits(const float* x, std::size_t n, unsigned cut, bool rounds, std::byte* to);
void from_upper_bits(const std::byte* from, std::size_t n, unsigned cut, float* x);

// compress/codecs/onebit.cc: buckets of `bucket` values
void to_onebit(const float* x, std::size_t n, std::size_t bucket, std::byte* to);
void from_onebit(const std::byte* from, std::size_t n, std::size_t bucket, float* x);

// compress/codecs/stochastic.cc: bucket >= 1; clip in standard deviations of all values, 0: none. scale: of every
// bucket; 0: each has its own, as stochastic_scale tells of one (waits for the device)
void to_stochastic(const float* x, std::size_t n, std::size_t bucket, unsigned bits, float clip, float scale,
                   const Draws& draws, std::byte* to);
float stochastic_scale(const float* x, std::size_t n, float clip);
void from_stochastic(const std::byte* from, std::size_t n, std::size_t bucket, unsigned bits, float* x);

}  // namespace laconic::compress::cuda
