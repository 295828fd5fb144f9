#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace laconic {

/// An array of bytes with its extents, outermost first.
struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> values;
};

/// Reads an idx file of unsigned bytes with `rank` dimensions; gzip is recognised by content.
///
///   offset 0    0 : u8 | 0 : u8 | type : u8 = 0x08 | rank : u8 | extent : u32 big-endian, rank times | values : u8
///
/// source: LeCun, Cortes, Burges, "The MNIST database", file formats.
/// throws DataError: wrong magic number (says expected and found), more or fewer bytes than the header promises
/// (nothing is allocated on a header's word), unreadable.
IdxArray read_idx(const std::string& path, int rank);

}  // namespace laconic
