#include "arithmetic.h"

namespace emulated_cuda {

void add_multiple(float* y, float x, const float* row, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += x * row[i];
}

void add_products(float* y, const float* x, const float* matrix, std::size_t rows, std::size_t stride, std::size_t n) {
  constexpr std::size_t kLanes = 16;
  for (std::size_t j = 0; j < rows; ++j) {
    const float* const row = matrix + j * stride;
    float sums[kLanes] = {}, sum = 0;
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) sums[l] += x[i + l] * row[i + l];
    for (; i < n; ++i) sum += x[i] * row[i];
    for (const float s : sums) sum += s;
    y[j] += sum;
  }
}

void add_rows(float* y, const float* x, const float* matrix, std::size_t rows, std::size_t stride, std::size_t n) {
  for (std::size_t j = 0; j < rows; ++j) add_multiple(y, x[j], matrix + j * stride, n);
}

void add_outer(float* matrix, const float* x, const float* y, std::size_t rows, std::size_t stride, std::size_t n) {
  for (std::size_t j = 0; j < rows; ++j) add_multiple(matrix + j * stride, x[j], y, n);
}

}  // namespace emulated_cuda
