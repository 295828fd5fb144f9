#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct gzFile_s;

namespace laconic {

/// A file read from front to back; gzip is recognised by its content, never by its name, and unpacked on the way.
/// Memory grows with the bytes that are really there, never with what a header promises, so that a hostile header or a
/// gzip bomb costs no more than what the caller asked for.
/// throws DataError: the file cannot be opened or read, is a directory, or its gzip stream is cut or damaged.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The next `count` bytes (unpacked), fewer only where the file ends.
  std::vector<std::uint8_t> read(std::uint64_t count);

  const std::string& path() const { return path_; }
  std::uint64_t bytes_read() const { return bytes_read_; }  ///< unpacked, so far

 private:
  std::string path_;
  gzFile_s* file_;
  bool cut_ = false;  // its gzip stream ends before its end
  std::uint64_t bytes_read_ = 0;
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

/// 30720000 as "30,720,000", for error messages.
std::string grouped(std::uint64_t number);

/// The first of `names` that is a regular file in one of `folders`, as given or with ".gz" behind it; folders are tried
/// in order. Else what has the first name and is no regular file, as a link to nothing, for whoever opens it says what
/// is wrong; "" if there is none.
std::string find_file(const std::vector<std::string>& folders, const std::vector<std::string>& names);

}  // namespace laconic
