#pragma once
#include <cstddef>
#include <vector>

namespace laconic::compress {

/// Discrete cosine transform of n values, DCT-II, orthonormal: y = D x, x = D' y, with
///
///     D[k][i] = sqrt((k > 0 ? 2 : 1) / n) cos(pi k (2 i + 1) / (2 n))
///
/// as a product with this matrix: for the short lengths of blocks. Exact but for rounding in float.
///   source  Ahmed, Natarajan, Rao 1974
class Dct {
 public:
  explicit Dct(std::size_t n);  ///< n >= 1

  std::size_t size() const { return n_; }
  const float* matrix() const { return matrix_.data(); }          ///< D : [n, n]
  const float* transposed() const { return transposed_.data(); }  ///< D'

 private:
  std::size_t n_;
  std::vector<float> matrix_, transposed_;
};

/// Both ways for blocks of rows.size() by columns.size(), on both sides: Y = R X C', X = R' Y C. Any thread. The bits
/// depend on the values alone.
///   y, work : [rows, columns], contiguous and apart
///   cost    rows columns (rows + columns) products and additions; where y has few that are not 0, half of that
void dct_block(const Dct& rows, const Dct& columns, const float* x, std::size_t stride, float* y, float* work);
/// x : contiguous, apart from y
void inverse_dct_block(const Dct& rows, const Dct& columns, const float* y, float* x, float* work);

}  // namespace laconic::compress
