// For builds without libarchive.
#include "core/base/error.h"
#include "data/archive_file.h"

namespace laconic {

class ArchiveBytes {};

bool has_libarchive() { return false; }

Archive::Archive(const std::string& path, bool, std::uint64_t) : path_(path) {
  throw DataError(path + " is an archive, and this build has no libarchive. Unpack it, or build with libarchive-dev.");
}

Archive::~Archive() = default;

std::uint64_t Archive::bytes_in_memory() const { return 0; }

void Archive::read(std::size_t, std::vector<std::uint8_t>&) const {}

}  // namespace laconic
