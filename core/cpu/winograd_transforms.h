#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/cpu/simd.h"

/// Winograd's transforms of tiles, for vectors that hold one element of several tiles or channels.
/// core/cpu/convolutions.h has the formulas and their source.
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

/// Vectors V that lie `step` apart: T is V for locals, float for memory.
template <class V, class T>
struct Line {
  T* at;
  std::ptrdiff_t step;
  LACONIC_INLINE void get(V& v, int i) const {
    if constexpr (std::is_same_v<std::remove_const_t<T>, V>)
      v = at[i * step];
    else
      load(v, at + i * step);
  }
  LACONIC_INLINE void set(int i, const V& v) const {
    if constexpr (std::is_same_v<T, V>)
      at[i * step] = v;
    else
      store(at + i * step, v);
  }
};
/// A tile of them, whose rows and columns lie so far apart.
template <class V, class T>
struct Square {
  T* at;
  std::ptrdiff_t row, column;
  LACONIC_INLINE Line<V, T> row_at(int i) const { return {at + i * row, column}; }
  LACONIC_INLINE Line<V, T> column_at(int j) const { return {at + j * column, row}; }
};

/// y = row i of the matrix times x.
template <class Matrix, int i, class V, int... j>
LACONIC_INLINE void row_times(V& y, const V* x, std::integer_sequence<int, j...>) {
  (add_term<Matrix, i, j, first_of_row<Matrix, i, sizeof...(j)>()>(y, x[j]), ...);
}

/// y = the matrix times x: from taps to points.
template <class Matrix, class V, class Y, class X, int... q>
LACONIC_INLINE void to_points(const Line<V, Y>& y, const Line<V, X>& x, std::integer_sequence<int, q...>) {
  constexpr std::make_integer_sequence<int, Matrix::kTaps> taps;
  V in[Matrix::kTaps], first, last;
  for (int j = 0; j < Matrix::kTaps; ++j) x.get(in[j], j);
  row_times<Matrix, 0>(first, in, taps);
  y.set(0, first);
  (
      [&]() __attribute__((always_inline)) {
        V even, odd;
        row_times<EvenPart<Matrix>, 2 * q + 1>(even, in, taps);
        row_times<OddPart<Matrix>, 2 * q + 1>(odd, in, taps);
        y.set(2 * q + 1, even + odd);
        y.set(2 * q + 2, even - odd);
      }(),
      ...);
  row_times<Matrix, Matrix::kSide - 1>(last, in, taps);
  y.set(Matrix::kSide - 1, last);
}
/// y = the transposed matrix times x: from points to taps.
template <class Matrix, class V, class Y, class X, int... j>
LACONIC_INLINE void from_points(const Line<V, Y>& y, const Line<V, X>& x, std::integer_sequence<int, j...>) {
  constexpr int kLast = Matrix::kSide - 1;
  V folded[Matrix::kSide];
  x.get(folded[0], 0), x.get(folded[kLast], kLast);
  for (int i = 1; i < kLast; i += 2) {
    V plus, minus;
    x.get(plus, i), x.get(minus, i + 1);
    folded[i] = plus + minus;
    folded[i + 1] = plus - minus;
  }
  (
      [&]() __attribute__((always_inline)) {
        V tap;
        row_times<Folded<Matrix>, j>(tap, folded, std::make_integer_sequence<int, Matrix::kSide>());
        y.set(j, tap);
      }(),
      ...);
}

/// y [kSide][kSide] = the matrix times x [kTaps][kTaps] times its transpose.
template <class Matrix, class V, class Y, class X>
LACONIC_INLINE void tile_to_points(const Square<V, Y>& y, const Square<V, X>& x) {
  constexpr int kSide = Matrix::kSide, kTaps = Matrix::kTaps;
  constexpr std::make_integer_sequence<int, (kSide - 2) / 2> pairs;
  V values[kSide * kTaps];
  const Square<V, V> half{values, kTaps, 1};
  for (int j = 0; j < kTaps; ++j) to_points<Matrix>(half.column_at(j), x.column_at(j), pairs);
  for (int i = 0; i < kSide; ++i) to_points<Matrix>(y.row_at(i), half.row_at(i), pairs);
}
/// y [kTaps][kTaps] = the transposed matrix times x [kSide][kSide] times the matrix.
template <class Matrix, class V, class Y, class X>
LACONIC_INLINE void tile_from_points(const Square<V, Y>& y, const Square<V, X>& x) {
  constexpr int kSide = Matrix::kSide, kTaps = Matrix::kTaps;
  constexpr std::make_integer_sequence<int, kTaps> taps;
  V values[kTaps * kSide];
  const Square<V, V> half{values, kSide, 1};
  for (int j = 0; j < kSide; ++j) from_points<Matrix>(half.column_at(j), x.column_at(j), taps);
  for (int i = 0; i < kTaps; ++i) from_points<Matrix>(y.row_at(i), half.row_at(i), taps);
}

}  // namespace laconic::cpu::winograd
