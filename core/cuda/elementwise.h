#pragma once
#include <cstdint>
#include <span>

#include "core/slice.h"

/// As core/cpu/elementwise.h on the selected device.
namespace laconic::cuda {

void fill(float* y, float value, std::int64_t n);
void add(float* y, const float* x, std::int64_t n);                  ///< y += x
void add(float* y, const float* a, const float* b, std::int64_t n);  ///< y = a + b
void axpy(float* y, float a, const float* x, std::int64_t n);        ///< y += a x
void scale(float* y, float a, std::int64_t n);
void relu(float* y, std::int64_t n);
void relu(float* y, const float* x, std::int64_t n);
void relu_backward(float* dx, const float* dy, const float* y, std::int64_t n);
void tanh_forward(float* y, const float* x, std::int64_t n);
void tanh_backward(float* dx, const float* dy, const float* y, std::int64_t n);
void sigmoid_forward(float* y, const float* x, std::int64_t n);
void sigmoid_backward(float* dx, const float* dy, const float* y, std::int64_t n);
void fill_times(float* y, float a, const float* b, std::int64_t n);
void scale_times(float* y, const float* x, float a, const float* b, std::int64_t n);

// Sums are in double, by chunks of fixed size and in their order: the same bits on every device, for data that is
// aligned alike to 16 bytes.
/// y[0] = a sum x[i],  a sum x[i]^2, on the device.
void sum(float* y, float a, const float* x, std::int64_t n);
void sum_of_squares(float* y, float a, const float* x, std::int64_t n);
// These wait for the device.
double sum(const float* x, std::int64_t n);
double sum_of_squares(const float* x, std::int64_t n);
double sum_of_squares(std::span<const Slice<const float>> x);  ///< over all of them
bool all_finite(const float* x, std::int64_t n);

/// b[j] (+)= sum_i x[i, j] for x [rows, columns]: the gradient of a bias.
void sum_rows(float* b, const float* x, std::int64_t rows, std::int64_t columns, bool add);
void increment(std::int64_t* counter);

}  // namespace laconic::cuda
