#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/cuda/launch.cuh"

/// Words in payloads, which begin at any byte: a GPU moves only what is aligned.
namespace laconic::compress::cuda {

/// As kernels count.
inline std::int64_t size(std::size_t n) { return static_cast<std::int64_t>(n); }

inline __host__ __device__ bool aligned(const void* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

template <class Word>
__device__ void put_word(std::byte* to, Word word) {
  if (aligned(to, sizeof(Word))) {
    *reinterpret_cast<Word*>(to) = word;
    return;
  }
  for (std::size_t b = 0; b < sizeof(Word); ++b) to[b] = static_cast<std::byte>(word >> 8 * b & 0xFF);
}
template <class Word>
__device__ Word get_word(const std::byte* from) {
  if (aligned(from, sizeof(Word))) return *reinterpret_cast<const Word*>(from);
  Word word = 0;
  for (std::size_t b = 0; b < sizeof(Word); ++b)
    word = static_cast<Word>(word | static_cast<Word>(static_cast<Word>(from[b]) << 8 * b));
  return word;
}

}  // namespace laconic::compress::cuda
