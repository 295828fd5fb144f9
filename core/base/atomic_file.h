#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

/// What tells a damaged file from a whole one: its length and its CRC-32 (zlib's, as the program `crc32` prints it).
/// It finds every change of up to 32 neighbouring bits, and misses one in 2^32 of all others. It does not protect
/// against intent. About 1 GB/s.
struct FileSum {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;

  void add(const void* data, std::size_t size);
  std::string crc_text() const;                   ///< eight hexadecimal digits
  std::string text() const;                       ///< "BYTES CRC"
  static FileSum parse(const std::string& text);  ///< the inverse of text(). throws DataError
  bool operator==(const FileSum&) const = default;
};

/// An open regular file, read in any order by any number of threads.
/// throws DataError: it cannot be opened or read, is a folder, or becomes shorter
class RandomAccessFile {
 public:
  explicit RandomAccessFile(const std::string& path);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< bytes, when it was opened
  void read(std::uint64_t offset, std::uint64_t bytes, void* to) const;

 private:
  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;
};

/// The bytes of a whole file.
std::vector<std::byte> read_file(const std::string& path);

/// Throws DataError if it cannot be read.
FileSum sum_of_file(const std::string& path);
/// Returns what a file says: all of it, or its first `most` bytes. Nothing: it cannot be opened, or gives no byte but
/// an error. A file in /proc may end early, with its process.
std::optional<std::string> text_of_file(const std::string& path,
                                        std::size_t most = std::numeric_limits<std::size_t>::max());

/// A file that appears under its name complete, or not at all: it is written under a temporary name in the same
/// directory (NAME.PID.NUMBER.tmp), and commit() syncs it, renames it over the old one and syncs the directory.
/// Destroyed without commit(), it leaves no trace, and what had the name before is untouched. So one that is made and
/// destroyed finds out whether the path can be written to.
///
/// A name that is a link stays one: what it points to is written. What is no regular file (a device, a pipe) is written
/// in place, from the first write() on; so is /dev/stdout, wherever it goes.
///
/// Throws DataError with the path and the system's reason (no such directory, disk full, nobody reads the pipe, ...).
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();
  const FileSum& sum() const { return sum_; }  ///< the sum of all that was written so far

  /// Removes what writers of `name` in `directory` left behind when they were killed. Nobody may write it now.
  static void sweep(const std::string& directory, const std::string& name);

 private:
  void open_in_place();
  [[noreturn]] void fail(const char* doing, int reason) const;
  std::string path_, target_, temporary_;  // the path as given; where links lead; "" if written in place
  int fd_ = -1;
  FileSum sum_;
};

/// A folder of its own among the system's temporary ones. It goes with the object, and so does all that is in it.
class ScratchFolder {
 public:
  /// who : part of its name, and of the message. advice : follows "Set TMPDIR" in the message
  /// throws DataError if it cannot be made
  explicit ScratchFolder(const std::string& who, const std::string& advice = "");
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace laconic
