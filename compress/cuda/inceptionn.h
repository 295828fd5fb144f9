#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/inceptionn/kernels.h"

/// The kernels of compress/inceptionn/inceptionn.h for device memory. A message in halves begins with four bytes: the
/// length of the payload of its first h values (h > 0, a multiple of 16). The second half follows the first without a
/// gap.
namespace laconic::compress::cuda {

/// What a device tells of a message.
struct InceptionnFound {
  std::uint64_t bytes;  ///< its length, header and all
  std::uint32_t wrong;  ///< 1: it is no message of that number of values
  std::uint32_t unused;
};

/// x (plus, where it is not null, addend) to `to`, which has room for the longest message. found : device memory; its
/// bytes are told there.
void encode_inceptionn(const cpu::InceptionnRule& rule, const float* x, std::size_t n, std::size_t h, std::byte* to,
                       InceptionnFound* found);

/// x = what the message says, or addend + that; x may be the addend. Nothing outside of the message is read, whatever
/// it says. If it is no message of n values, found->wrong tells so, and x is undefined.
void decode_inceptionn(const cpu::InceptionnRule& rule, const std::byte* message, std::size_t bytes, std::size_t n,
                       std::size_t h, const float* addend, float* x, InceptionnFound* found);

/// The relative codec divides each block of kSumChunk values by a power of two: y = x / 2^exponent, and writes the
/// exponents. scale_back() multiplies again, in place.
void scale_by_means(const float* x, std::size_t n, std::int8_t* exponents, float* y);
void scale_back(const std::int8_t* exponents, std::size_t n, float* x);

}  // namespace laconic::compress::cuda
