#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"

namespace laconic {

/// Stands in 32 bits for a number that is told in 64.
inline constexpr std::uint64_t kZipIn64Bits = 0xFFFFFFFF;

/// Bytes of a zip archive, and little-endian numbers in them. All throw DataError where the directory is damaged.
class ZipBytes {
 public:
  ZipBytes(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t bytes);
  std::size_t size() const { return bytes_.size(); }
  std::uint64_t number(std::size_t at, std::size_t bytes) const;
  std::string text(std::size_t at, std::size_t bytes) const;
  void check(bool good) const;

 private:
  const std::string& path_;
  std::vector<std::byte> bytes_;
};

struct ZipDirectory {
  std::uint64_t offset, bytes, entries;
};
/// Where a zip archive's directory is, and how many files and folders it tells of.
/// source: PKWARE, .ZIP File Format Specification 6.3, sections 4.3.14 to 4.3.16
/// throws DataError: there is none; the message goes on with `absent`
ZipDirectory zip_directory_of(const RandomAccessFile& file, const std::string& absent);

}  // namespace laconic
