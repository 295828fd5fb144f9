#pragma once
#include <cstddef>

/// The inner loops of the emulated libraries, on copies of their operands. Whoever calls them has read every operand
/// and checked its size; so they are compiled without sanitizers, which would find nothing here and take ten times as
/// long.
namespace emulated_cuda {

/// y[i] += x * row[i]
void add_multiple(float* y, float x, const float* row, std::size_t n);
/// y[j] += the product of x and row j of a matrix with n columns, whose rows begin `stride` apart.
void add_products(float* y, const float* x, const float* matrix, std::size_t rows, std::size_t stride, std::size_t n);
/// y += x[j] times row j, for all rows.
void add_rows(float* y, const float* x, const float* matrix, std::size_t rows, std::size_t stride, std::size_t n);
/// Row j of the matrix += x[j] * y.
void add_outer(float* matrix, const float* x, const float* y, std::size_t rows, std::size_t stride, std::size_t n);

}  // namespace emulated_cuda
