#include "core/cuda/libraries.h"
#include "core/kernels/products.h"
#include "core/precision.h"

namespace laconic::cuda {
namespace {

/// A factor as cuBLAS sees it, which reads memory column by column: the transpose of what is meant here.
struct Operand {
  Factor factor;
  cublasOperation_t op;
  std::int64_t stride;  // between rows
};

/// c[rows, columns] (+)= a b over `inner`; c's rows `stride` apart. cuBLAS is asked for c' = b' a'.
void multiply(Product c, bool add, const Operand& a, const Operand& b, std::int64_t rows, std::int64_t columns,
              std::int64_t inner, std::int64_t stride) {
  if (rows == 0 || columns == 0) return;
  require<Error>(a.factor.dtype == b.factor.dtype, "matmul: one factor is ", a.factor.dtype, ", the other ",
                 b.factor.dtype, ".");
  const float one = 1.0f, keep = add ? 1.0f : 0.0f;
  const auto named = [](DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; };
  const cudaDataType type = named(a.factor.dtype);
  const bool tf32 = type == CUDA_R_32F && matmul_precision() == Precision::tf32;
  check(cublas().cublasGemmEx_64(cublas_handle(), b.op, a.op, columns, rows, inner, &one, b.factor.data, type, b.stride,
                                 a.factor.data, type, a.stride, &keep, c.data, named(c.dtype), stride,
                                 tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "multiplying");
}

}  // namespace

void linear_forward(Product y, bool add, Factor x, Factor w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu) {
  multiply(y, add, {x, CUBLAS_OP_N, in}, {w, CUBLAS_OP_T, in}, rows, out, in, stride);
  if (b || relu) add_bias(y, Factor(y), b, rows, out, stride, relu);
}

void linear_backward_data(Product dx, bool add, Factor dy, Factor w, std::int64_t rows, std::int64_t in,
                          std::int64_t out) {
  multiply(dx, add, {dy, CUBLAS_OP_N, out}, {w, CUBLAS_OP_N, in}, rows, in, out, in);
}

void linear_backward_weights(float* dw, bool add, Factor x, Factor dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride) {
  multiply(dw, add, {dy, CUBLAS_OP_T, stride}, {x, CUBLAS_OP_N, in}, out, in, rows, in);
}

}  // namespace laconic::cuda
