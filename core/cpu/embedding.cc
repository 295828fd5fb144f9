#include "core/cpu/each.h"
#include "core/kernels/rows.h"

namespace laconic::cpu {
namespace {

LACONIC_MULTIVERSION void scatter_part(float* LACONIC_RESTRICT dw, const float* LACONIC_RESTRICT dy,
                                       const std::int64_t* index, std::int64_t n, std::int64_t first,
                                       std::int64_t rows, std::int64_t columns, std::int64_t dim) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = index[i] - first;
    if (row < 0 || row >= rows) continue;
    for (std::int64_t j = 0; j < columns; ++j) dw[row * dim + j] += dy[i * dim + j];
  }
}

}  // namespace

void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t /*vocabulary*/,
                       std::int64_t dim) {
  parallel_for(n, row_grain(dim), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(w + index[i] * dim, dim, y + i * dim);
  });
}

void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim) {
  parallel_for(dim, std::max<std::int64_t>(16, row_grain(n)), [=](std::int64_t begin, std::int64_t end) {
    scatter_part(dw + begin, dy + begin, index, n, first, rows, end - begin, dim);
  });
}

}  // namespace laconic::cpu
