#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "core/shape.h"

namespace laconic {

/// A walk over all places of a shape, outermost extent first, and up to three arrays that follow it, each by strides of
/// its own: how arrays of several shapes meet (NumPy's broadcasting), and how elements change their order.
struct StridedWalk {
  static constexpr int kArrays = 3;
  using Strides = std::array<std::int64_t, Shape::kMaxRank>;  ///< strides in elements; 0: the array stands still

  int rank = 0;
  std::int64_t elements = 1;
  std::array<std::int64_t, Shape::kMaxRank> extent{};
  std::array<Strides, kArrays> stride{};

  /// Neighbouring extents are joined where every array goes through them in one stride, and extents of 1 are left out.
  StridedWalk(const Shape& shape, std::span<const Strides> arrays) : elements(shape.elements()) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1) continue;
      bool joins = rank > 0;
      for (std::size_t k = 0; k < arrays.size() && joins; ++k)
        joins = stride[k][at()] == arrays[k][place(d)] * shape[d];
      if (!joins) extent[static_cast<std::size_t>(rank++)] = 1;
      extent[at()] *= shape[d];
      for (std::size_t k = 0; k < arrays.size(); ++k) stride[k][at()] = arrays[k][place(d)];
    }
    if (rank == 0) extent[static_cast<std::size_t>(rank++)] = 1;
  }
  /// Along n elements, which lie alike in all arrays.
  explicit StridedWalk(std::int64_t n) : rank(1), elements(n) {
    extent[0] = n;
    for (Strides& s : stride) s[0] = 1;
  }
  /// True if `arrays` arrays all lie as the result does.
  bool contiguous(int arrays) const {
    bool all = rank == 1;
    for (int k = 0; k < arrays; ++k) all &= stride[place(k)][0] == 1;
    return all || elements <= 1;
  }

 private:
  static std::size_t place(int i) { return static_cast<std::size_t>(i); }
  std::size_t at() const { return static_cast<std::size_t>(rank - 1); }
};

/// The strides of a plain array.
inline StridedWalk::Strides strides_of(const Shape& shape) {
  StridedWalk::Strides s{};
  std::int64_t next = 1;
  for (int d = shape.rank(); d-- > 0; next *= shape[d]) s[static_cast<std::size_t>(d)] = next;
  return s;
}

/// The shape that two shapes meet in: extents are compared from the innermost on; they are equal, or one of them is 1
/// or missing. throws ShapeError naming both, in the name of `what`
Shape broadcast_shape(const char* what, const Shape& a, const Shape& b);
/// The strides of a plain array of shape `from` in a walk over `to`, which it broadcasts to.
StridedWalk::Strides broadcast_strides(const Shape& from, const Shape& to);

}  // namespace laconic
