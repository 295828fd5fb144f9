#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "compress/dct.h"
#include "core/shape.h"
#include "core/slice.h"

namespace laconic::compress {

/// A matrix cut into chunks of at most `side` by `side`, of which the largest coefficients of the cosine transform
/// travel. Each side of the matrix is cut into as few nearly equal parts as go. A vector is a row.
///
///     message, little-endian      for each chunk   place : u16 k | coefficient : f32 k
///
/// k = min(most, elements of the chunk); places count row by row, and ascend.
///   cost    extract: two transforms of each chunk and a choice; combine: one transform. On up to kernel_threads()
///           threads. The bits do not depend on their number.
class DctChunks {
 public:
  /// shape : the matrix has its first dimension for rows, all others for columns
  /// side  : 1 to 256.   most : at least 1
  DctChunks(const Shape& shape, std::int64_t side, std::int64_t most);
  DctChunks(DctChunks&&) = default;

  std::size_t message_bytes() const { return 6 * kept_; }
  std::size_t kept() const { return kept_; }  ///< coefficients that travel

  /// Writes what travels of m, and takes it out of m: m -= inverse transform of what travels. NaN counts as the
  /// largest.
  void extract(float* m, std::byte* message) const;
  /// Throws DataError unless that is a message of such a matrix.
  void check(Slice<const std::byte> message) const;
  /// Q becomes the inverse transform of the sum of these messages, each of which has been checked, in their order.
  void combine(const std::vector<const std::byte*>& messages, float* q) const;

 private:
  struct Chunk {
    std::size_t offset;  // in the matrix
    const Dct *rows, *columns;
    std::size_t kept, before;  // coefficients of it, and of those before it
    std::size_t size() const { return rows->size() * columns->size(); }
  };
  template <class F>
  void for_chunks(F f) const;

  std::size_t columns_ = 1, kept_ = 0;
  std::map<std::size_t, Dct> transforms_;  // by length
  std::vector<Chunk> chunks_;
};

}  // namespace laconic::compress
