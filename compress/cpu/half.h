#pragma once
#include <cstddef>

/// Floats of 2 bytes, at any address; round to nearest, ties to even. The same bits on every processor.
namespace laconic::compress::cpu {

void to_fp16(const float* x, std::size_t n, std::byte* to);
void from_fp16(const std::byte* from, std::size_t n, float* x);
void to_bf16(const float* x, std::size_t n, std::byte* to);
void from_bf16(const std::byte* from, std::size_t n, float* x);

}  // namespace laconic::compress::cpu
