#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/cpu/simd.h"

/// Winograd's transforms of tiles, for vectors that hold one element of several tiles or channels (core/cpu/winograd.h
/// has the formulas and their source).
namespace laconic::cpu::winograd {

/// The matrices of F(M x M, 3x3), a row for each point p_i, the last one for infinity:
///     data     B'   coefficients of prod_{k != i} (x - p_k)
///     kernel   G    p_i^j / prod_{k != i} (p_i - p_k)
///     output   A    p_i^j
template <int M>
struct Matrices {
  static constexpr int kSide = M + 2, kInfinity = kSide - 1;
  static constexpr double kPoints[5] = {0, M == 4 ? 0.625 : 1, M == 4 ? -0.625 : -1, 1.5, -1.5};
  double data[kSide][kSide] = {}, kernel[kSide][3] = {}, output[kSide][M] = {};

  constexpr Matrices() {
    for (int i = 0; i < kSide; ++i) {
      double product[kSide + 1] = {1}, norm = 1;
      for (int k = 0, degree = 0; k < kInfinity; ++k) {
        if (k == i) continue;
        ++degree;
        for (int j = degree; j >= 0; --j) product[j] = (j > 0 ? product[j - 1] : 0) - kPoints[k] * product[j];
        if (i < kInfinity) norm *= kPoints[i] - kPoints[k];
      }
      for (int j = 0; j < kSide; ++j) data[i][j] = product[j];
      double power = 1;
      for (int j = 0; j < std::max(M, 3); ++j, power *= i < kInfinity ? kPoints[i] : 0) {
        if (j < 3) kernel[i][j] = i < kInfinity ? power / norm : j == 2;
        if (j < M) output[i][j] = i < kInfinity ? power : j == M - 1;
      }
    }
  }
};
template <int M>
constexpr Matrices<M> kMatrices{};

template <int M, int taps, auto table>
struct MatrixOf {
  static constexpr int kSide = M + 2, kTaps = taps;
  static constexpr double at(int i, int j) { return (kMatrices<M>.*table)[i][j]; }
};
template <int M>
using Data = MatrixOf<M, M + 2, &Matrices<M>::data>;
template <int M>
using Kernel = MatrixOf<M, 3, &Matrices<M>::kernel>;
template <int M>
using Output = MatrixOf<M, M, &Matrices<M>::output>;

// Points come in pairs +-p, whose rows differ in the sign of every second entry. So a pair shares its even and its odd
// part, and a transform takes half of a matrix product's operations.

template <class Matrix>
struct EvenPart {
  static constexpr double at(int i, int j) { return j % 2 == 0 ? Matrix::at(i, j) : 0; }
};
template <class Matrix>
struct OddPart {
  static constexpr double at(int i, int j) { return j % 2 == 1 ? Matrix::at(i, j) : 0; }
};
/// The transpose, for a vector whose pairs have become sum and difference.
template <class Matrix>
struct Folded {
  static constexpr double at(int j, int i) {
    if (i == 0 || i == Matrix::kSide - 1) return Matrix::at(i, j);
    const bool is_sum = i % 2 == 1;
    return is_sum == (j % 2 == 0) ? Matrix::at(is_sum ? i : i - 1, j) : 0;
  }
};

template <class Matrix, int i, int n>
constexpr int first_of_row() {
  for (int j = 0; j < n; ++j)
    if (Matrix::at(i, j) != 0) return j;
  return n;
}
template <class Matrix, int i, int j, int kFirst, class V>
LACONIC_INLINE void add_term(V& y, const V& x) {
  constexpr auto factor = static_cast<float>(Matrix::at(i, j));
  if constexpr (j == kFirst)
    y = factor * x;
  else if constexpr (factor != 0)
    y += factor * x;
}
/// y = row i of the matrix times x.
template <class Matrix, int i, class V, int... j>
LACONIC_INLINE void row_times(V& y, const V* x, std::ptrdiff_t stride, std::integer_sequence<int, j...>) {
  (add_term<Matrix, i, j, first_of_row<Matrix, i, sizeof...(j)>()>(y, x[j * stride]), ...);
}

/// y = the matrix times x: from taps to points.
template <class Matrix, class V, int... q>
LACONIC_INLINE void to_points(V* y, std::ptrdiff_t y_stride, const V* x, std::ptrdiff_t x_stride,
                              std::integer_sequence<int, q...>) {
  constexpr std::make_integer_sequence<int, Matrix::kTaps> taps;
  row_times<Matrix, 0>(y[0], x, x_stride, taps);
  (
      [&]() __attribute__((always_inline)) {
        V even, odd;
        row_times<EvenPart<Matrix>, 2 * q + 1>(even, x, x_stride, taps);
        row_times<OddPart<Matrix>, 2 * q + 1>(odd, x, x_stride, taps);
        y[(2 * q + 1) * y_stride] = even + odd;
        y[(2 * q + 2) * y_stride] = even - odd;
      }(),
      ...);
  row_times<Matrix, Matrix::kSide - 1>(y[(Matrix::kSide - 1) * y_stride], x, x_stride, taps);
}
/// y = the transposed matrix times x: from points to taps.
template <class Matrix, class V, int... j>
LACONIC_INLINE void from_points(V* y, std::ptrdiff_t y_stride, const V* x, std::ptrdiff_t x_stride,
                                std::integer_sequence<int, j...>) {
  V folded[Matrix::kSide];
  folded[0] = x[0], folded[Matrix::kSide - 1] = x[(Matrix::kSide - 1) * x_stride];
  for (int i = 1; i < Matrix::kSide - 1; i += 2) {
    folded[i] = x[i * x_stride] + x[(i + 1) * x_stride];
    folded[i + 1] = x[i * x_stride] - x[(i + 1) * x_stride];
  }
  (row_times<Folded<Matrix>, j>(y[j * y_stride], folded, 1, std::make_integer_sequence<int, Matrix::kSide>()), ...);
}

/// y [kSide][kSide] = the matrix times x [kTaps][kTaps] times its transpose.
template <class Matrix, class V>
LACONIC_INLINE void tile_to_points(V* y, const V* x) {
  constexpr int kSide = Matrix::kSide, kTaps = Matrix::kTaps;
  constexpr std::make_integer_sequence<int, (kSide - 2) / 2> pairs;
  V half[kSide][kTaps];
  for (int j = 0; j < kTaps; ++j) to_points<Matrix>(&half[0][j], kTaps, x + j, kTaps, pairs);
  for (int i = 0; i < kSide; ++i) to_points<Matrix>(y + i * kSide, 1, &half[i][0], 1, pairs);
}
/// y [kTaps][kTaps] = the transposed matrix times x [kSide][kSide] times the matrix.
template <class Matrix, class V>
LACONIC_INLINE void tile_from_points(V* y, const V* x) {
  constexpr int kSide = Matrix::kSide, kTaps = Matrix::kTaps;
  constexpr std::make_integer_sequence<int, kTaps> taps;
  V half[kTaps][kSide];
  for (int j = 0; j < kSide; ++j) from_points<Matrix>(&half[0][j], kSide, x + j, kSide, taps);
  for (int i = 0; i < kTaps; ++i) from_points<Matrix>(y + i * kTaps, 1, &half[i][0], 1, taps);
}

}  // namespace laconic::cpu::winograd
