#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/tensor.h"

namespace laconic {

/// The arrays that numpy.savez or savez_compressed saved: a zip archive of .npy files, stored or deflated.
/// The constructor reads the archive's directory, and read() one array: what is not asked for cannot be wrong.
/// throws DataError naming the file: it is no such archive, is cut, or has a name twice
class NpzFile {
 public:
  explicit NpzFile(const std::string& path);

  const std::vector<std::string>& names() const { return names_; }  ///< the file's order, without ".npy"
  /// As read_npy() (data/npy.h).   Memory: the array's bytes twice
  /// throws DataError: there is none of that name, it is damaged, encrypted or packed in another way, or read_npy's
  Tensor read(const std::string& name) const;

 private:
  struct Member {
    std::uint64_t offset = 0, packed_bytes = 0, bytes = 0;
    std::uint32_t crc32 = 0;
    int method = 0, flags = 0;
  };
  void read_directory();

  RandomAccessFile file_;
  std::vector<std::string> names_;
  std::vector<Member> members_;  // in the order of names_
};

}  // namespace laconic
