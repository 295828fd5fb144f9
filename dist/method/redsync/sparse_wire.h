#pragma once
#include <vector>

#include "compress/sparse_message.h"

namespace laconic::dist {

/// How chosen elements of one tensor become what one rank sends: a sparse message; or, where all have one magnitude and
/// either sign (Strom), two of them, each with one value:
///
///     little-endian   bytes : u32 | message of the values above 0, so many bytes | message of the others
struct SparseWire {
  compress::SparseFormat format{};
  bool both_signs = false;  ///< two messages; their format has one value

  /// No payload of at most `count` elements of n is longer; a multiple of 4.
  std::size_t max_bytes(std::size_t count, std::size_t n) const;
  /// Appends. values : one for each index; with format.one_value alone the one that stands for all
  void encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
              compress::Bytes& payload) const;
  /// Reads a payload of a tensor of n elements into views[next] and on; what is next then.
  /// throws DataError if it is none; nothing is read outside of it
  std::size_t read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                   std::size_t next) const;
};

}  // namespace laconic::dist
