#pragma once
#include <cstdint>

#include "core/tensor.h"

/// Products of row-major matrices through cuBLAS, on the calling thread's device and stream. Results are float32.
/// cuBLAS adds in an order that depends on shapes and the GPU's model only: the same bits every time and on every rank.
namespace laconic::cuda {

/// A matrix that a product reads: float32 (multiplied as matmul_precision() says), or bfloat16. Both of a product are
/// of one type.
struct Factor {
  const void* data;
  DType dtype;

  Factor(const float* p) : data(p), dtype(DType::f32) {}
  /// `first`: the element that it begins with.
  explicit Factor(const Tensor& t, std::int64_t first = 0)
      : data(static_cast<const std::byte*>(t.raw_data()) + static_cast<std::size_t>(first) * size_of(t.dtype())),
        dtype(t.dtype()) {}
};

/// y = x w' + b, then ReLU if asked; with add y += x w' (b null, no ReLU).
///   x : [rows, in]   w : [out, in]   b : [out] or null   y : [rows, out], its rows `stride` apart
void linear_forward(float* y, bool add, Factor x, Factor w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu);
/// dx[rows, in] = dy[rows, out] w, or += with add
void linear_backward_data(float* dx, bool add, Factor dy, Factor w, std::int64_t rows, std::int64_t in,
                          std::int64_t out);
/// dw[out, in] = dy' x, or += with add. dy : [rows, out], its rows `stride` apart
void linear_backward_weights(float* dw, bool add, Factor x, Factor dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride);

}  // namespace laconic::cuda
