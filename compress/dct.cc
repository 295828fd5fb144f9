#include "compress/dct.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/cpu/simd.h"

namespace laconic::compress {
namespace {

/// A matrix in memory: element (i, j) at data[i row + j column].
struct MatrixView {
  const float* data;
  std::size_t row, column;
};

/// C = A B. The terms of each element are added in order, four at a time: the same bits for every set of instructions.
///   a : [m, k]   b : [k, n]   c : [m, n], apart from both; b and c contiguous
LACONIC_MULTIVERSION void small_product(MatrixView a, const float* LACONIC_RESTRICT b, std::size_t m, std::size_t k,
                                        std::size_t n, float* LACONIC_RESTRICT c) {
  std::fill_n(c, m * n, 0.0f);
  for (std::size_t i = 0; i < m; ++i) {
    float* LACONIC_RESTRICT const to = c + i * n;
    const float* const row = a.data + i * a.row;
    std::size_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const float a0 = row[p * a.column], a1 = row[(p + 1) * a.column], a2 = row[(p + 2) * a.column],
                  a3 = row[(p + 3) * a.column];
      if (a0 == 0 && a1 == 0 && a2 == 0 && a3 == 0) continue;  // most coefficients that were chosen from are 0
      const float *const b0 = b + p * n, *const b1 = b0 + n, *const b2 = b1 + n, *const b3 = b2 + n;
      for (std::size_t j = 0; j < n; ++j) to[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
    }
    for (; p < k; ++p)
      for (std::size_t j = 0; j < n; ++j) to[j] += row[p * a.column] * b[p * n + j];
  }
}

}  // namespace

Dct::Dct(std::size_t n) : n_(n), matrix_(n * n), transposed_(n * n) {
  const auto length = static_cast<double>(n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i) {
      const double angle = std::numbers::pi * static_cast<double>(k * (2 * i + 1)) / (2 * length);
      matrix_[k * n + i] = static_cast<float>(std::sqrt((k > 0 ? 2 : 1) / length) * std::cos(angle));
      transposed_[i * n + k] = matrix_[k * n + i];
    }
}

void dct_block(const Dct& rows, const Dct& columns, const float* x, std::size_t stride, float* y, float* work) {
  const std::size_t h = rows.size(), w = columns.size();
  small_product({x, stride, 1}, columns.transposed(), h, w, w, work);
  small_product({rows.matrix(), h, 1}, work, h, h, w, y);
}

void inverse_dct_block(const Dct& rows, const Dct& columns, const float* y, float* x, float* work) {
  const std::size_t h = rows.size(), w = columns.size();
  small_product({y, w, 1}, columns.matrix(), h, w, w, work);
  small_product({rows.transposed(), h, 1}, work, h, h, w, x);
}

}  // namespace laconic::compress
