#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"

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

/// Takes a byte order mark off a text's front.
void drop_byte_order_mark(std::string& text);
/// The text of a file, unpacked and without a byte order mark; at most its first `most` bytes.
std::string read_text(const std::string& path, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// Whether a file is a tar (gzipped or not) or a zip, by its first bytes, or by a name such as x.tar.gz where they do
/// not say so. throws DataError: it cannot be opened
bool is_archive(const std::string& path);

/// 30720000 as "30,720,000", for error messages.
std::string grouped(std::uint64_t number);

/// The first of `names` that is a regular file in one of `folders`, as given or with ".gz" behind it; folders are tried
/// in order. Else what has the first name and is no regular file, as a link to nothing, for its reader says what is
/// wrong; "" if there is none.
std::string find_file(const std::vector<std::string>& folders, const std::vector<std::string>& names);

/// A number of what has been added and in what order; two sequences share it but for chance (2^-64). No cryptography.
/// Cost: about 1 GB/s.
class Digest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace laconic
