#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

class ArchiveBytes;

/// The files of a tar, of one packed by gzip, or of a zip. They are found once, and then read in any order by any
/// number of threads; none is ever written to a disk. What gzip packed is kept in memory, unpacked. Cost: one pass over
/// the headers; 24 bytes and a name of memory a file, and a descriptor while it stays open.
class Archive {
 public:
  static constexpr std::uint64_t kMostUnpacked = std::uint64_t{1} << 31;  ///< bytes that are kept in memory

  /// stays_open : else the file is opened for each read
  /// most_unpacked : bytes that it may keep in memory
  /// throws DataError: it is no such archive, is cut, damaged or encrypted, holds a link or a name that leads out of
  /// it, lacks a file that a zip's directory tells of, or would take more memory; this build has no libarchive
  explicit Archive(const std::string& path, bool stays_open = true, std::uint64_t most_unpacked = kMostUnpacked);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t bytes_in_memory() const;
  std::size_t size() const { return entries_.size(); }  ///< files, without folders
  std::string_view name(std::size_t i) const {          ///< its path in the archive, in UTF-8, without "." and ".."
    const std::size_t begin = i == 0 ? 0 : entries_[i - 1].name_end;
    return std::string_view(names_).substr(begin, entries_[i].name_end - begin);
  }
  std::string full_name(std::size_t i) const {  ///< the archive's and its own, for messages
    return path_ + ": " + std::string(name(i));
  }
  std::uint64_t bytes(std::size_t i) const { return entries_[i].bytes; }
  /// The bytes of file i.   throws DataError: they are damaged (a zip has checksums), or longer than kMostFileBytes
  void read(std::size_t i, std::vector<std::uint8_t>& bytes) const;

 private:
  struct Entry {
    std::uint64_t name_end, position, bytes;  // position: where its header begins
  };
  void add(std::string_view name, std::uint64_t position, std::uint64_t bytes);

  std::string path_, names_;
  std::vector<Entry> entries_;
  std::unique_ptr<const ArchiveBytes> contents_;
};

bool has_libarchive();

}  // namespace laconic
