#include "data/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "data/npy.h"
#include "data/zip_directory.h"

namespace laconic {
namespace {

// source: PKWARE, .ZIP File Format Specification 6.3, sections 4.3 and 4.5.3. Numbers are little-endian.
constexpr std::uint64_t kZipLocal = 0x04034b50, kZipEntry = 0x02014b50;
constexpr std::size_t kZipLocalBytes = 30, kZipEntryBytes = 46;

/// The field of an entry that says in 64 bits what 32 cannot hold: of these numbers those that are kZipIn64Bits, in
/// order.
void widen(const ZipBytes& directory, std::size_t at, std::size_t end, std::initializer_list<std::uint64_t*> numbers) {
  for (std::size_t next; at + 4 <= end; at = next) {
    next = at + 4 + directory.number(at + 2, 2);
    directory.check(next <= end);
    if (directory.number(at, 2) != 1) continue;
    at += 4;
    for (std::uint64_t* number : numbers) {
      if (*number != kZipIn64Bits) continue;
      directory.check(at + 8 <= next);
      *number = directory.number(at, 8);
      at += 8;
    }
    return;
  }
}

/// Bytes that are not cleared before they are written, so that a promise alone takes no memory.
using Unpacked = std::unique_ptr<std::byte[]>;

/// Inflates `packed` bytes of the file to what becomes not longer than `bytes`. Nothing: it is something else.
Unpacked inflated(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t packed, std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = 1 << 20;
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();  // -: without zlib's own header
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> closed(&stream, inflateEnd);
  auto out = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);  // 1 more, to see what is longer
  std::vector<Bytef> piece(std::min(packed, kPiece));
  std::uint64_t written = 0;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (stream.avail_in == 0 && packed > 0) {
      const std::uint64_t count = std::min(packed, kPiece);
      file.read(offset, count, piece.data());
      offset += count, packed -= count;
      stream.next_in = piece.data(), stream.avail_in = static_cast<uInt>(count);
    }
    const auto room = static_cast<uInt>(std::min(bytes + 1 - written, std::uint64_t{1} << 30));
    stream.next_out = reinterpret_cast<Bytef*>(out.get() + written), stream.avail_out = room;
    code = inflate(&stream, Z_NO_FLUSH);
    written += room - stream.avail_out;
    if (code != Z_OK && code != Z_STREAM_END) return nullptr;
  }
  if (written != bytes || stream.avail_in > 0 || packed > 0) return nullptr;
  return out;
}

}  // namespace

NpzFile::NpzFile(const std::string& path) : file_(path) { read_directory(); }

void NpzFile::read_directory() {
  const ZipDirectory d = zip_directory_of(
      file_,
      " is no .npz file: no directory of a zip archive is at its end. If it was downloaded, it was cut; else "
      "save it by numpy.savez.");
  const ZipBytes directory(file_, d.offset, d.bytes);
  std::uint64_t entries = 0;
  std::size_t at = 0;
  for (; at < directory.size(); ++entries) {
    directory.check(directory.number(at, 4) == kZipEntry);
    Member m{.offset = directory.number(at + 42, 4),
             .packed_bytes = directory.number(at + 20, 4),
             .bytes = directory.number(at + 24, 4),
             .crc32 = static_cast<std::uint32_t>(directory.number(at + 16, 4)),
             .method = static_cast<int>(directory.number(at + 10, 2)),
             .flags = static_cast<int>(directory.number(at + 8, 2))};
    const std::size_t name_bytes = directory.number(at + 28, 2), field_bytes = directory.number(at + 30, 2);
    const std::string name = directory.text(at + kZipEntryBytes, name_bytes);
    const std::size_t field = at + kZipEntryBytes + name_bytes;
    widen(directory, field, field + field_bytes, {&m.bytes, &m.packed_bytes, &m.offset});
    at = field + field_bytes + directory.number(at + 32, 2);
    if (!name.ends_with(".npy")) continue;
    names_.push_back(name.substr(0, name.size() - 4));
    members_.push_back(m);
  }
  directory.check(entries == d.entries && at == directory.size());
  std::vector<std::string> sorted = names_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  require<DataError>(twice == sorted.end(), file_.path(), " has two arrays of the name '",
                     twice == sorted.end() ? "" : *twice, "'. Save each under a name of its own.");
}

Tensor NpzFile::read(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    const std::string near = nearest(name, names_);
    throw DataError(concat(file_.path(), ": there is no array '", name, "'", near.empty() ? "." : ": did you mean ",
                           near, near.empty() ? "" : "?"));
  }
  const Member& m = members_[static_cast<std::size_t>(found - names_.begin())];
  const std::string where = concat(file_.path(), ": ", name);
  require<DataError>(m.flags % 2 == 0, where, " is encrypted. Save it by numpy.savez.");
  require<DataError>(m.method == 0 || m.method == Z_DEFLATED, where, " is packed by method ", m.method,
                     " of zip, neither stored nor deflated. Save it by numpy.savez.");
  const ZipBytes local(file_, m.offset, kZipLocalBytes);
  local.check(local.number(0, 4) == kZipLocal);
  const std::uint64_t name_bytes = local.number(26, 2), before = kZipLocalBytes + name_bytes + local.number(28, 2);
  local.check(before <= file_.size() - m.offset && m.packed_bytes <= file_.size() - m.offset - before);
  const ZipBytes own_name(file_, m.offset + kZipLocalBytes, name_bytes);
  own_name.check(own_name.text(0, name_bytes) == name + ".npy");
  // Deflate makes no more than 1032 bytes of one.
  local.check(m.method == 0 ? m.bytes == m.packed_bytes : m.bytes / 1032 <= m.packed_bytes);
  Unpacked bytes;
  if (m.method == 0)
    file_.read(m.offset + before, m.bytes, (bytes = std::make_unique_for_overwrite<std::byte[]>(m.bytes)).get());
  else
    bytes = inflated(file_, m.offset + before, m.packed_bytes, m.bytes);
  const auto crc = bytes ? crc32_z(0, reinterpret_cast<const Bytef*>(bytes.get()), m.bytes) : 0;
  require<DataError>(bytes && crc == m.crc32, where, " is damaged: its checksum is wrong. Fetch the file again.");
  return npy_of({bytes.get(), m.bytes}, where);
}

}  // namespace laconic
