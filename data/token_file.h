#pragma once
#include <cstdint>
#include <string>

#include "data/token_sequence.h"

namespace laconic {

/// The most tokens of a vocabulary.
inline constexpr std::int64_t kMostTokens = 1'000'000;

/// Whether a file holds numbers of tokens: its name ends in .npy, or in .bin and it is no text.
bool is_token_file(const std::string& path);

/// Maps a file of token numbers.
///   llm.c      256 x i32: 20240520, version 1, count; then u16. Or 20240801, version 7, count; then u32
///   NumPy's    .npy, versions 1 to 3: one row of integers, little-endian
///   nanoGPT's  numbers alone: u32 where the upper half of each is 0 in all samples, else u16. Of a vocabulary above
///              65,536 always u32
/// vocabulary : what all numbers must be below, checked as they are read; 0: unknown, at most kMostTokens
/// Cost: reads up to 192 KiB, whatever the file's size.
/// throws DataError: it cannot be read, is cut, compressed, text, another file of these programs, or could be both u16
///        and u32
TokenSequence map_token_file(const std::string& path, std::int64_t vocabulary);

}  // namespace laconic
