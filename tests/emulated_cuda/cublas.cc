#include <algorithm>
#include <vector>

#include "arithmetic.h"
#include "cublas_v2.h"
#include "rounding.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  bool reduces_in_bf16 = true;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->reduces_in_bf16 = (mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      break;
  }
  return "not supported";
}

namespace {

/// op(M)[rows, columns] as rows of floats, M stored column by column.
std::vector<float> read(const void* M, cudaDataType type, cublasOperation_t op, std::int64_t ld, std::int64_t rows,
                        std::int64_t columns, bool tf32) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = op == CUBLAS_OP_N ? i + j * ld : j + i * ld;
      const float x = type == CUDA_R_32F ? static_cast<const float*>(M)[at]
                                         : emulated_cuda::from_bf16(static_cast<const std::uint16_t*>(M)[at]);
      out[static_cast<std::size_t>(i * columns + j)] = tf32 ? emulated_cuda::to_tf32(x) : x;
    }
  return out;
}

}  // namespace

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* A,
                               cudaDataType Atype, std::int64_t lda, const void* B, cudaDataType Btype,
                               std::int64_t ldb, const void* beta, void* C, cudaDataType Ctype, std::int64_t ldc,
                               cublasComputeType_t compute, cublasGemmAlgo_t) {
  const auto least = [](std::int64_t extent) { return std::max<std::int64_t>(1, extent); };
  if (m < 0 || n < 0 || k < 0 || !alpha || !beta || !A || !B || !C || ldc < least(m) ||
      lda < least(transa == CUBLAS_OP_N ? m : k) || ldb < least(transb == CUBLAS_OP_N ? k : n))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((Ctype != CUDA_R_32F && Ctype != Atype) || Atype != Btype) return CUBLAS_STATUS_NOT_SUPPORTED;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  const bool in_parts = Ctype == CUDA_R_16BF && handle->reduces_in_bf16;
  const bool tf32 = Atype == CUDA_R_32F && compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  emulated_cuda::enqueue(handle->stream, [=] {
    // C' = op(B)' op(A)': by rows, where the inner loop runs along memory.
    const std::vector<float> left = read(B, Btype, transb == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, ldb, n, k, tf32);
    const std::vector<float> right = read(A, Atype, transa == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, lda, k, m, tf32);
    std::vector<float> sums(static_cast<std::size_t>(m));
    const std::int64_t part = in_parts ? 8 : std::max<std::int64_t>(k, 1);
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t from = 0; from < k; from += part) {
        emulated_cuda::add_rows(sums.data(), left.data() + j * k + from, right.data() + from * m,
                                static_cast<std::size_t>(std::min(part, k - from)), sums.size(), sums.size());
        if (in_parts)
          for (float& sum : sums) sum = emulated_cuda::from_bf16(emulated_cuda::to_bf16(sum));
      }
      const auto put = [&](auto* out, auto from, auto to) {
        for (std::size_t i = 0; i < sums.size(); ++i) out[i] = to(a * sums[i] + (b == 0.0f ? 0.0f : b * from(out[i])));
      };
      const auto same = [](float x) { return x; };
      if (Ctype == CUDA_R_32F)
        put(static_cast<float*>(C) + j * ldc, same, same);
      else
        put(static_cast<std::uint16_t*>(C) + j * ldc, emulated_cuda::from_bf16, emulated_cuda::to_bf16);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
