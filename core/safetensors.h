#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/tensor.h"

namespace laconic {

/// A tensor as a safetensors file lists it.
struct StoredTensor {
  std::string name, type;  ///< "F16"
  std::vector<std::int64_t> extents;
  std::uint64_t begin = 0, end = 0;  ///< its bytes, from the start of the file
};
std::string shape_text(const std::vector<std::int64_t>& extents);  ///< "[2, 3]"

/// A safetensors file (core/state.h draws one) whose header has been read and checked, whatever types its tensors have.
/// Any number of threads read its tensors, in any order.
class SafetensorsFile {
 public:
  /// throws DataError naming the file and the field: truncated, header too long, bad JSON, duplicate names, a shape
  /// that
  ///        does not match its offsets (where the type is known), offsets that overlap, leave gaps or lie outside
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }       ///< in the header's order
  const std::map<std::string, std::string>& texts() const { return texts_; }  ///< __metadata__

  /// A tensor as it is stored, in host memory.
  /// throws DataError unless it is of F32, BF16, I32, I64 or U8 and has at most 6 dimensions
  Tensor read(const StoredTensor& tensor) const;
  /// Its values as float32 or int64, in host memory. Reads and converts piece by piece, on kernel_threads() threads.
  ///   f32   of F32, F16, BF16, F8_E4M3, F8_E5M2: exactly; of F64: rounded to the nearest
  ///   i64   of BOOL, I8, U8, I16, U16, I32, U32, I64, U64
  /// throws DataError: another type (of integers where float32 is asked for, too: they are quantised), more than 6
  ///        dimensions, or a number that the result's type cannot hold, with its place
  Tensor read_as(const StoredTensor& tensor, DType dtype) const;
  /// Whether two tensors have the same type, shape and bytes.
  static bool equal(const SafetensorsFile& a, const StoredTensor& x, const SafetensorsFile& b, const StoredTensor& y);

 private:
  Shape shape_of(const StoredTensor& tensor) const;
  RandomAccessFile file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> texts_;
};

}  // namespace laconic
