#pragma once
#include <cstddef>
#include <cstdint>

/// The kernels of compress/inceptionn/inceptionn.h: the same bits from the portable, the AVX2 and the AVX-512 ones.
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
///   kept  : where it is not null, what decoding would make of them; may be x
///   scale : the groups are of the values times this, a power of two. 1 changes no bit, also of a NaN. (Only where the
///           rule does not truncate.)
std::byte* encode_inceptionn(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to,
                             float* kept = nullptr, float scale = 1);

/// Groups of n values from `from` on, before `end`, that become x; or x = addend + what they say, unless addend is
/// null. x may be the addend. What they say is multiplied by `scale`, a power of two, of which 1 changes no bit.
struct InceptionnStream {
  const std::byte* from;
  const std::byte* end;
  std::size_t n;
  const float* addend;
  float* x;
  float scale = 1;

  /// Behind `done` values, which ended at `to`.
  void advance(const std::byte* to, std::size_t done) {
    from = to, n -= done;
    if (addend) addend += done;
    if (x) x += done;
  }
};

/// All of two payloads beside each other: half as much again faster than one after the other, because where a group
/// begins is known only from the one before. Both with addend or both without; `b` may have no values. False if the
/// groups do not lie before `end`, or the absent values of a last group are not zero; afterwards `from` is where they
/// ended.
bool decode_inceptionn(const InceptionnRule& rule, InceptionnStream& a, InceptionnStream& b);

/// Encodes addend + what the groups say, two payloads to two, whose ends move on; x is not used. False as above.
bool decode_add_encode_inceptionn(const InceptionnRule& rule, InceptionnStream& a, InceptionnStream& b,
                                  std::byte*& to_a, std::byte*& to_b);

/// What a set of instructions does, for whole pairs of groups. Encoders take n values, a multiple of 16. Decoders
/// advance a stream, or two alike, until fewer than 16 values or too few bytes for a vector's load are left.
struct InceptionnKernels {
  using Encode = std::byte*(const InceptionnRule& rule, const float* x, std::size_t n, std::byte* to, float* kept,
                            float scale);
  using Decode = void(const InceptionnRule& rule, InceptionnStream& stream);
  using DecodeBoth = void(const InceptionnRule& rule, InceptionnStream& a, InceptionnStream& b);
  Encode* encode[2][2];      ///< index: rule.truncate, whether something is kept. The scale has no effect
  Encode* encode_scaled[2];  ///< index: whether something is kept. For rules that do not truncate
  Decode* decode[2][2];      ///< index: whether there is an addend, and a scale
  DecodeBoth* decode_both[2][2];
};
extern const InceptionnKernels kInceptionnAvx2, kInceptionnAvx512;  // on x86-64

}  // namespace laconic::compress::cpu
