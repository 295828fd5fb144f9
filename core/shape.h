#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace laconic {

/// Up to six extents, outermost first. A rank-0 shape has one element.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  ///< throws ShapeError if there are too many or one is negative

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[i]; }  ///< 0 <= i < rank()
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  Shape with(int i, std::int64_t extent) const {  ///< a copy with extent i replaced
    Shape s = *this;
    s.dims_[i] = extent;
    return s;
  }

  /// These extents for the elements of `from`; one may be -1: what remains. throws ShapeError in the name of `what`
  static Shape completed(const char* what, std::initializer_list<std::int64_t> dims, const Shape& from);
  Shape batch(std::int64_t samples) const;  ///< [samples, the extents …]; throws ShapeError if they are too many

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;  // unused extents stay 0
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);  ///< [64, 3, 32, 32]

/// A shape as a matrix: its first dimension by all others. A vector, or a number, is one column.
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
};
inline MatrixSize matrix_size(const Shape& shape) {
  const std::int64_t rows = shape.rank() > 0 ? shape[0] : 1;
  return {rows, rows > 0 ? shape.elements() / rows : 0};
}

}  // namespace laconic
