#include "compress/cpu/dct.h"

#include <algorithm>

#include "core/cpu/simd.h"

namespace laconic::compress::cpu {

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

}  // namespace laconic::compress::cpu
