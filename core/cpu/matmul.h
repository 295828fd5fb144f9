#pragma once
#include <cstdint>

/// Matrix products of row-major float matrices through oneDNN. The kernel per direction follows measurements on Zen 5:
/// for up to 256 rows its matmul primitive with the weights described as transposed is the fastest forward, sgemm
/// everything else (1.1 to 2.6 times OpenBLAS for 20 to 32 rows).
namespace laconic::cpu {

/// y = x w' + b, then ReLU if asked.   x : [rows, in]   w : [out, in]   b : [out] or null
/// y : [rows, out], its rows `stride` apart (out columns of a wider matrix)
void linear_forward(float* y, const float* x, const float* w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu);
/// dx[rows, in] = dy[rows, out] w, or += with add
void linear_backward_data(float* dx, bool add, const float* dy, const float* w, std::int64_t rows, std::int64_t in,
                          std::int64_t out);
/// dw[out, in] = dy' x, or += with add. dy : [rows, out], its rows `stride` apart (out columns of a wider matrix)
void linear_backward_weights(float* dw, bool add, const float* x, const float* dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride);

}  // namespace laconic::cpu
