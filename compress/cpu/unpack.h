#pragma once
#include <cstddef>
#include <cstdint>

/// Reading the index codings of compress/sparse_message.h, one block of at most 128 at a time.
namespace laconic::compress::cpu {

inline constexpr std::size_t kBlock = 128;

/// The first `count` numbers of `width` bits (0 to 32), lowest bits first. Reads (count width + 7) / 8 bytes at `from`
/// and nothing at or after `end`; writes 128 numbers, those after `count` undefined.
void unpack(const std::byte* from, const std::byte* end, unsigned width, std::size_t count, std::uint32_t* numbers);

/// unpack and then add_up, in one go.
std::uint64_t unpack_indices(const std::byte* from, const std::byte* end, unsigned width, std::size_t count,
                             std::uint64_t next, std::uint32_t* indices);

/// From gaps to indices, in place: index j = next + gap j, next = index j + 1. Of 128 numbers the first `count`; writes
/// all. Returns next, which does not wrap at 32 bits as the indices do.
std::uint64_t add_up(std::uint32_t* gaps, std::size_t count, std::uint64_t next);

/// True if each is larger than the one before.
bool ascend(const std::uint32_t* indices, std::size_t count);

}  // namespace laconic::compress::cpu
