#pragma once
#include <string>

#include "compress/inceptionn/inceptionn.h"

namespace laconic::compress {

/// A file of values that INCEPTIONN's codec has made small.
///
///     offset 0   "LACC"
///            4   version  : u8 = 1
///            5   mode     : u8, 0 published, 1 bounded
///            6   exponent : i16 of the bound 2^exponent
///            8   count    : u64 values
///           16   their groups (compress/inceptionn/inceptionn.h)                     little-endian
struct LaccHeader {
  InceptionnMode mode;
  int exponent;
  std::size_t count;
};
inline constexpr std::size_t kLaccHeader = 16;

/// Appends the whole file.
void encode_lacc(const Inceptionn& codec, Slice<const float> x, Bytes& file);

/// What the file says of itself. Afterwards `count` is a number that its length allows, so that one may make room for
/// it. throws DataError naming `where`: too short, of another kind or version, or a count that its length contradicts
LaccHeader lacc_header(Slice<const std::byte> file, const std::string& where);

/// x, of the header's count, becomes the values.   throws DataError naming `where` if the groups are damaged
void decode_lacc(Slice<const std::byte> file, Slice<float> x, const std::string& where);

}  // namespace laconic::compress
