#include "data/idx.h"

#include <cstdio>

#include "core/error.h"
#include "data/input_file.h"

namespace laconic {
namespace {

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

}  // namespace

IdxArray read_idx(const std::string& path, int rank) {
  InputFile file(path);
  const std::uint64_t header_bytes = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::vector<std::uint8_t> header = file.read(header_bytes);
  require<DataError>(!header.empty(), "idx: ", path, " is empty. The download was cut; fetch it again.");
  const std::uint32_t expected_magic = 0x0800u | static_cast<std::uint32_t>(rank);
  if (header.size() >= 4) {
    const std::uint32_t magic = big_endian(header.data());
    require<DataError>(magic == expected_magic, "idx: ", path, " starts with magic number ", hex(magic), ", not ",
                       hex(expected_magic), " (unsigned bytes in ", rank, rank == 1 ? " dimension" : " dimensions",
                       "). It is another file than its name says; fetch it again.");
  }
  require<DataError>(header.size() == header_bytes, "idx: ", path, " has ", grouped(header.size()),
                     " bytes, less than its header of ", header_bytes, ". The download was cut; fetch it again.");

  IdxArray array;
  std::uint64_t promised = 1;
  bool absurd = false;  // more than 2^40 bytes
  for (int i = 0; i < rank; ++i) {
    const std::uint32_t extent = big_endian(header.data() + 4 + 4 * i);
    array.dims.push_back(extent);
    absurd = absurd || (extent != 0 && promised > (std::uint64_t{1} << 40) / extent);
    if (!absurd) promised *= extent;
  }
  std::string extents;
  for (const std::int64_t d : array.dims)
    extents += (extents.empty() ? "" : " x ") + grouped(static_cast<std::uint64_t>(d));
  require<DataError>(!absurd, "idx: ", path, " promises ", extents,
                     " values in its header, more than any file holds. The file is damaged; fetch it again.");

  array.values = file.read(promised);
  require<DataError>(array.values.size() == promised, "idx: ", path, " has ", grouped(array.values.size()),
                     " values, but its header promises ", extents, " = ", grouped(promised),
                     ". The download was cut; fetch it again.");
  require<DataError>(file.read(1).empty(), "idx: ", path, " goes on after the ", extents, " = ", grouped(promised),
                     " values that its header promises. The file is damaged; fetch it again.");
  return array;
}

}  // namespace laconic
