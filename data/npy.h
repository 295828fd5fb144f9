#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/tensor.h"

namespace laconic {

/// What an array that NumPy saved says of itself before its values.
struct NpyHeader {
  std::string dtype;                ///< order, kind and bytes of an element: "<f4", ">u2", "|b1"
  bool fortran = false;             ///< whether the first index runs fastest; false where that is the same order
  std::vector<std::int64_t> shape;  ///< empty for a single number
  std::uint64_t data_offset = 0;    ///< bytes before the values

  std::int64_t elements() const;         ///< at most 2^48
  std::size_t bytes_of_element() const;  ///< 1 … 16
};

/// Reads the header of a .npy file, version 1, 2 or 3, and checks that as many values follow as it promises.
///   where : the name in messages
/// throws DataError: it is no such file, is cut, or holds what is not one number an element
NpyHeader read_npy_header(const RandomAccessFile& file, const std::string& where);

/// Reads an array that NumPy saved, in either order of bytes and of indices: float32 from f2, f4 and f8, int64 from
/// integers and b1.
///   throws DataError naming the file: as read_npy_header(), it has another type or more than 6 dimensions, or one of
///   its numbers is beyond float32 or int64
Tensor read_npy(const std::string& path);
/// The same of the bytes of a whole .npy file.   where : the name in messages
Tensor npy_of(std::span<const std::byte> file, const std::string& where);

}  // namespace laconic
