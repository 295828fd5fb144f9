#pragma once
#include <cstddef>
#include <cstdint>

/// The kernels of compress/inceptionn.h: the same bits from the portable, the AVX2 and the AVX-512 ones.
namespace laconic::compress::cpu {

/// What both modes come to: values are fixed-point numbers of 7 or 15 bits, or travel whole, or not at all. The limits
/// compare with the bits of a magnitude as an integer, so NaN and infinities lie above all of them.
struct InceptionnRule {
  std::uint32_t skip, eight, sixteen;  ///< below them a value takes 0, 8, 16 bits, else 32
  float scale8, scale16;               ///< magnitude to integer, powers of two; 1 / scale back
  bool truncate;                       ///< towards zero; else to nearest, ties to even
};

inline constexpr std::size_t kGroup = 8;             // values with one tag word
inline constexpr std::size_t kLongestGroup = 34;     // bytes
inline constexpr std::size_t kInceptionnTile = 256;  // values: what decode_add_encode keeps in the nearest cache

/// Groups of n values from x to `to`, which has room for kLongestGroup bytes a group. Returns the end; what room lies
/// after it may have been written to.
std::byte* encode_inceptionn(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to);

/// x = addend + what the groups of n values at `from` say; with addend null just what they say. x may be the addend.
/// Returns their end, or null if they do not lie before `end`, or the absent values of a last group are not zero.
const std::byte* decode_inceptionn(const InceptionnRule& rule, const std::byte* from, const std::byte* end,
                                   std::size_t n, const float* addend, float* x);

/// The groups of addend + what those at `from` say, to `to`: null or the end of what was read; `to` becomes the end of
/// what was written.
const std::byte* decode_add_encode_inceptionn(const InceptionnRule& rule, const std::byte* from, const std::byte* end,
                                              std::size_t n, const float* addend, std::byte*& to);

// ------------------------------------------------------------------------- for one another: whole pairs of groups
// Encoders take n values, a multiple of 16. Decoders begin at `from` and stop when fewer than 16 of n values or too few
// bytes for a vector's load are left: they move `from` on and return how many values they have done.

std::byte* encode_inceptionn_portable(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to);
std::byte* encode_inceptionn_avx2(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to);
std::byte* encode_inceptionn_avx512(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to);
std::size_t decode_inceptionn_portable(const InceptionnRule& rule, const std::byte*& from, const std::byte* end,
                                       std::size_t n, const float* addend, float* x);
std::size_t decode_inceptionn_avx2(const InceptionnRule& rule, const std::byte*& from, const std::byte* end,
                                   std::size_t n, const float* addend, float* x);
std::size_t decode_inceptionn_avx512(const InceptionnRule& rule, const std::byte*& from, const std::byte* end,
                                     std::size_t n, const float* addend, float* x);

}  // namespace laconic::compress::cpu
