#pragma once
#include <cublas_v2.h>
#include <cudnn.h>

#include "core/cuda/runtime.h"

/// NVIDIA's libraries, opened when their functions are first asked for: a program that does not need them starts
/// without them (they are slow to load, and not on every machine). What is called of each is a table of pointers with
/// the functions' own names and types:
///   cuda::check(cuda::cublas().cublasSetStream_v2(handle, stream), "binding cuBLAS");
/// A table is a struct made from a list of names. On the emulated device it holds the emulated functions.
namespace laconic::cuda {

/// A shared library, open until the program ends.
class Library {
 public:
  /// Throws Error with advice if the file is not found where the system looks for libraries.
  Library(const char* product, const char* file);
  /// Throws Error if the library lacks it.
  void* function(const char* name) const;

 private:
  const char *product_, *file_;
  void* handle_;
};

/// A member of the struct, for each name.
#define LACONIC_LIBRARY_POINTER(name) decltype(&::name) name = nullptr;
/// Defines `const Table& f()`, which fills the table on its first call.   functions: the list of names, a macro of a
/// macro
#ifdef LACONIC_CUDA_EMULATED
#define LACONIC_LIBRARY_FIND(name) table.name = &::name;
#define LACONIC_LIBRARY_OPEN(product, file)
#else
#define LACONIC_LIBRARY_FIND(name) table.name = reinterpret_cast<decltype(&::name)>(library.function(#name));
#define LACONIC_LIBRARY_OPEN(product, file) const Library library(product, file);
#endif
#define LACONIC_LIBRARY(Table, f, functions, product, file) \
  const Table& f() {                                        \
    static const Table all = [] {                           \
      Table table;                                          \
      LACONIC_LIBRARY_OPEN(product, file)                   \
      functions(LACONIC_LIBRARY_FIND) return table;         \
    }();                                                    \
    return all;                                             \
  }

#define LACONIC_CUBLAS(F) \
  F(cublasCreate_v2)      \
  F(cublasSetStream_v2)   \
  F(cublasSetMathMode)    \
  F(cublasGemmEx_64)      \
  F(cublasGetStatusString)
struct Cublas {
  LACONIC_CUBLAS(LACONIC_LIBRARY_POINTER)
};
const Cublas& cublas();

#define LACONIC_CUDNN(F)                           \
  F(cudnnCreate)                                   \
  F(cudnnSetStream)                                \
  F(cudnnGetErrorString)                           \
  F(cudnnDestroyTensorDescriptor)                  \
  F(cudnnCreateTensorDescriptor)                   \
  F(cudnnSetTensor4dDescriptor)                    \
  F(cudnnDestroyFilterDescriptor)                  \
  F(cudnnCreateFilterDescriptor)                   \
  F(cudnnSetFilter4dDescriptor)                    \
  F(cudnnDestroyConvolutionDescriptor)             \
  F(cudnnCreateConvolutionDescriptor)              \
  F(cudnnSetConvolution2dDescriptor)               \
  F(cudnnSetConvolutionGroupCount)                 \
  F(cudnnSetConvolutionMathType)                   \
  F(cudnnGetConvolutionForwardAlgorithm_v7)        \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  F(cudnnConvolutionForward)                       \
  F(cudnnConvolutionBackwardData)                  \
  F(cudnnConvolutionBackwardFilter)
struct Cudnn {
  LACONIC_CUDNN(LACONIC_LIBRARY_POINTER)
};
const Cudnn& cudnn();

/// Throws Error "cublas: WHAT: what the library says." unless the status is success.
void check(cublasStatus_t status, const char* what);
void check(cudnnStatus_t status, const char* what);

/// The calling thread's handles on its device, bound to its stream. Made once per stream, since that takes long: like
/// the stream they go to the next thread when this one ends.
cublasHandle_t cublas_handle();
cudnnHandle_t cudnn_handle();

/// Scratch memory of the calling thread's stream for one call of these: the next one's is the same memory, which only
/// grows, so that layers of many sizes do not each keep some. Null if the device has no room for it.
void* workspace(std::size_t bytes);

}  // namespace laconic::cuda
