#include "data/zip_directory.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace laconic {
namespace {

constexpr std::uint64_t kZipEnd = 0x06054b50, kZip64End = 0x06064b50, kZip64Locator = 0x07064b50;
constexpr std::size_t kZipEndBytes = 22, kZip64EndBytes = 56, kZip64LocatorBytes = 20;

}  // namespace

ZipBytes::ZipBytes(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t bytes) : path_(file.path()) {
  check(bytes <= file.size() && offset <= file.size() - bytes);
  bytes_.resize(bytes);
  file.read(offset, bytes, bytes_.data());
}

std::uint64_t ZipBytes::number(std::size_t at, std::size_t bytes) const {
  check(bytes <= size() && at <= size() - bytes);
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + i]);
  return value;
}

std::string ZipBytes::text(std::size_t at, std::size_t bytes) const {
  check(bytes <= size() && at <= size() - bytes);
  return {reinterpret_cast<const char*>(bytes_.data()) + at, bytes};
}

void ZipBytes::check(bool good) const {
  require<DataError>(good, path_, " has a damaged directory. The download was cut; fetch it again.");
}

// The end of the archive says where its directory is; a comment of up to 65,535 bytes may follow.
ZipDirectory zip_directory_of(const RandomAccessFile& file, const std::string& absent) {
  const ZipBytes tail(file, file.size() - std::min<std::uint64_t>(file.size(), kZipEndBytes + 0xFFFF),
                      std::min<std::uint64_t>(file.size(), kZipEndBytes + 0xFFFF));
  std::optional<std::size_t> end;
  for (std::size_t at = tail.size() < kZipEndBytes ? 0 : tail.size() - kZipEndBytes + 1; at-- > 0 && !end;)
    if (tail.number(at, 4) == kZipEnd && at + kZipEndBytes + tail.number(at + 20, 2) == tail.size()) end = at;
  require<DataError>(end.has_value(), file.path(), absent);
  ZipDirectory d{tail.number(*end + 16, 4), tail.number(*end + 12, 4), tail.number(*end + 10, 2)};
  const std::uint64_t at = file.size() - tail.size() + *end;
  if (d.offset != kZipIn64Bits && d.bytes != kZipIn64Bits && d.entries != 0xFFFF) return d;
  if (at < kZip64LocatorBytes) return d;
  const ZipBytes locator(file, at - kZip64LocatorBytes, kZip64LocatorBytes);
  if (locator.number(0, 4) != kZip64Locator) return d;
  const ZipBytes end64(file, locator.number(8, 8), kZip64EndBytes);
  end64.check(end64.number(0, 4) == kZip64End);
  return {end64.number(48, 8), end64.number(40, 8), end64.number(32, 8)};
}

}  // namespace laconic
