#pragma once
#include <cstddef>
#include <cstdint>

/// Numbers of any width in a row: the index codings of compress/sparse_message.h and codecs of few bits, one block of
/// at most 128 at a time.
namespace laconic::compress::cpu {

inline constexpr std::size_t kBlock = 128;

/// Bytes of `count` numbers of `width` bits in blocks of kBlock, each filled up to a byte.
inline std::size_t packed_bytes(std::size_t count, unsigned width) {
  return count / kBlock * (kBlock / 8) * width + (count % kBlock * width + 7) / 8;
}

/// The low `width` bits (0 to 32) of each number, lowest first, filled up to a byte. Returns the end.
std::byte* pack(const std::uint32_t* numbers, std::size_t count, unsigned width, std::byte* to);

/// The first `count` numbers of `width` bits (0 to 32), lowest bits first. Reads (count width + 7) / 8 bytes at `from`
/// and nothing at or after `end`; writes 128 numbers, those after `count` undefined.
void unpack(const std::byte* from, const std::byte* end, unsigned width, std::size_t count, std::uint32_t* numbers);

/// Floats of which the upper 32 - `cut` bits were packed, in blocks of kBlock; their other bits are 0.   x : [n]
void from_upper_bits(const std::byte* from, const std::byte* end, unsigned cut, std::size_t n, float* x);

/// Numbers that are gaps, as indices: index j = next + gap j, next = index j + 1. Otherwise as unpack. Returns next,
/// which does not wrap at 32 bits as the indices do.
std::uint64_t unpack_indices(const std::byte* from, const std::byte* end, unsigned width, std::size_t count,
                             std::uint64_t next, std::uint32_t* indices);

/// True if each is larger than the one before.
bool ascend(const std::uint32_t* indices, std::size_t count);

}  // namespace laconic::compress::cpu
