#include "compress/codecs/dct.h"

#include <cmath>
#include <numbers>

#include "compress/cpu/dct.h"

namespace laconic::compress {

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
  cpu::small_product({x, stride, 1}, columns.transposed(), h, w, w, work);
  cpu::small_product({rows.matrix(), h, 1}, work, h, h, w, y);
}

void inverse_dct_block(const Dct& rows, const Dct& columns, const float* y, float* x, float* work) {
  const std::size_t h = rows.size(), w = columns.size();
  cpu::small_product({y, w, 1}, columns.matrix(), h, w, w, work);
  cpu::small_product({rows.transposed(), h, 1}, work, h, h, w, x);
}

}  // namespace laconic::compress
