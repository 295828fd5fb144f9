#pragma once
// cuBLAS on the emulated device: only what laconic calls, with NVIDIA's names and values.
#include <cstdint>

#include "cuda_runtime.h"

#define CUBLAS_VER_MAJOR 13

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
using cublasHandle_t = struct cublasContext*;

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
const char* cublasGetStatusString(cublasStatus_t status);
/// C[m, n] = alpha op(A) op(B) + beta C, column by column; A and B float32 or bfloat16, C float32 or of their type.
/// TF32 really rounds; sums are rounded to bfloat16 part by part unless the handle's mode forbids it.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* A,
                               cudaDataType Atype, std::int64_t lda, const void* B, cudaDataType Btype,
                               std::int64_t ldb, const void* beta, void* C, cudaDataType Ctype, std::int64_t ldc,
                               cublasComputeType_t computeType, cublasGemmAlgo_t algo);
