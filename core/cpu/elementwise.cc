#include "core/cpu/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

// One function per loop so that each is compiled for every instruction set; the threads call them on their part.
LACONIC_MULTIVERSION void fill_part(float* y, float value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = value;
}
LACONIC_MULTIVERSION void add_part(float* LACONIC_RESTRICT y, const float* LACONIC_RESTRICT x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}
LACONIC_MULTIVERSION void sum_part(float* y, const float* a, const float* b, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}
LACONIC_MULTIVERSION void axpy_part(float* LACONIC_RESTRICT y, float a, const float* LACONIC_RESTRICT x,
                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}
LACONIC_MULTIVERSION void scale_part(float* y, float a, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] *= a;
}
// NaN stays NaN (as in PyTorch), so that a broken layer is seen and not hidden.
LACONIC_MULTIVERSION void relu_part(float* y, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
}
LACONIC_MULTIVERSION void relu_copy_part(float* LACONIC_RESTRICT y, const float* LACONIC_RESTRICT x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}
LACONIC_MULTIVERSION void relu_backward_part(float* dx, const float* dy, const float* y, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}
LACONIC_MULTIVERSION void tanh_backward_part(float* dx, const float* dy, const float* y, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}
LACONIC_MULTIVERSION void sigmoid_backward_part(float* dx, const float* dy, const float* y, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
}
LACONIC_MULTIVERSION std::uint32_t largest_exponent_part(const float* x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
LACONIC_MULTIVERSION double sum_of_squares_part(const float* x, std::int64_t n) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(x[i + l]) * x[i + l];
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}
LACONIC_MULTIVERSION void sum_rows_part(float* LACONIC_RESTRICT b, const float* LACONIC_RESTRICT x, std::int64_t rows,
                                        std::int64_t columns, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) b[j] += x[i * stride + j];
}

}  // namespace

void fill(float* y, float value, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { fill_part(y + b, value, e - b); });
}
void add(float* y, const float* x, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { add_part(y + b, x + b, e - b); });
}
void add(float* y, const float* a, const float* c, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { sum_part(y + b, a + b, c + b, e - b); });
}
void axpy(float* y, float a, const float* x, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { axpy_part(y + b, a, x + b, e - b); });
}
void scale(float* y, float a, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { scale_part(y + b, a, e - b); });
}
void relu(float* y, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { relu_part(y + b, e - b); });
}
void relu(float* y, const float* x, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { relu_copy_part(y + b, x + b, e - b); });
}
void relu_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { relu_backward_part(dx + b, dy + b, y + b, e - b); });
}
void tanh_forward(float* y, const float* x, std::int64_t n) {
  parallel_for(n, kGrain / 8, [=](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) y[i] = std::tanh(x[i]);
  });
}
void tanh_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { tanh_backward_part(dx + b, dy + b, y + b, e - b); });
}
void sigmoid_forward(float* y, const float* x, std::int64_t n) {
  parallel_for(n, kGrain / 8, [=](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) y[i] = 1.0f / (1.0f + std::exp(-x[i]));
  });
}
void sigmoid_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  parallel_for(n, kGrain, [=](std::int64_t b, std::int64_t e) { sigmoid_backward_part(dx + b, dy + b, y + b, e - b); });
}

void fill_times(float* y, float a, const float* b, std::int64_t n) { fill(y, a * *b, n); }
void scale_times(float* y, const float* x, float a, const float* b, std::int64_t n) {
  std::copy_n(x, n, y);
  scale(y, a * *b, n);
}

bool all_finite(const float* x, std::int64_t n) { return largest_exponent_part(x, n) < 0x7F800000u; }

double sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t c = b; c < e; ++c)
      sums[static_cast<std::size_t>(c)] = sum_of_squares_part(x + c * kChunk, std::min(kChunk, n - c * kChunk));
  });
  double sum = 0;
  for (double s : sums) sum += s;
  return sum;
}

double sum(const float* x, std::int64_t n) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t c = b; c < e; ++c)
      sums[static_cast<std::size_t>(c)] = std::accumulate(x + c * kChunk, x + std::min(n, (c + 1) * kChunk), 0.0);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void sum_rows(float* b, const float* x, std::int64_t rows, std::int64_t columns, bool add) {
  parallel_for(columns, std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(rows, 1)),
               [=](std::int64_t begin, std::int64_t end) {
                 if (!add) std::fill(b + begin, b + end, 0.0f);
                 sum_rows_part(b + begin, x + begin, rows, end - begin, columns);
               });
}

}  // namespace laconic::cpu
