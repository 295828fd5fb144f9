#pragma once
#include <algorithm>
#include <cstdint>

/// Vectorised loops over host memory. Parallel over kernel_threads() where it pays; results do not depend on it.
namespace laconic::cpu {

/// Shortest part worth a thread of its own, in floats.
inline constexpr std::int64_t kGrain = 32768;
/// The same in rows of so many elements, at least 1. One element takes as long as `cost` floats of a simple loop.
inline std::int64_t row_grain(std::int64_t elements, std::int64_t cost = 1) {
  return std::max<std::int64_t>(1, kGrain / cost / std::max<std::int64_t>(elements, 1));
}

void fill(float* y, float value, std::int64_t n);
void add(float* y, const float* x, std::int64_t n);                   ///< y += x
void add(float* y, const float* a, const float* b, std::int64_t n);   ///< y = a + b
void axpy(float* y, float a, const float* x, std::int64_t n);         ///< y += a x
void scale(float* y, float a, std::int64_t n);
void relu(float* y, std::int64_t n);                                  ///< y = max(y, 0)
void relu(float* y, const float* x, std::int64_t n);                  ///< y = max(x, 0)
/// dx = y > 0 ? dy : 0, where y is ReLU's output. dx may be dy.
void relu_backward(float* dx, const float* dy, const float* y, std::int64_t n);
void tanh_forward(float* y, const float* x, std::int64_t n);
void tanh_backward(float* dx, const float* dy, const float* y, std::int64_t n);
void sigmoid_forward(float* y, const float* x, std::int64_t n);
void sigmoid_backward(float* dx, const float* dy, const float* y, std::int64_t n);
/// y[i] = a b[0] (x[i]): what a loss hands back, whose own gradient is b. y may be x.
void fill_times(float* y, float a, const float* b, std::int64_t n);
void scale_times(float* y, const float* x, float a, const float* b, std::int64_t n);
bool all_finite(const float* x, std::int64_t n);
double sum_of_squares(const float* x, std::int64_t n);
double sum(const float* x, std::int64_t n);                           ///< in chunks of fixed size, in double
/// b[j] (+)= sum_i x[i, j] for x [rows, columns]: the gradient of a bias.
void sum_rows(float* b, const float* x, std::int64_t rows, std::int64_t columns, bool add);
inline void increment(std::int64_t* counter) { ++*counter; }

}  // namespace laconic::cpu
