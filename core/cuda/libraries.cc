#include "core/cuda/libraries.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace laconic::cuda {

Library::Library(const char* product, const char* file)
    : product_(product), file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* why = dlerror();
  throw Error(concat(file, " was not found: install ", product, ", or name its folder in LD_LIBRARY_PATH (",
                     why ? why : "no reason given", ")."));
}

void* Library::function(const char* name) const {
  void* f = dlsym(handle_, name);
  require<Error>(f != nullptr, product_, ": ", file_, " has no ", name,
                 ": it is another version than this program was ", "built for. Install that one.");
  return f;
}

#define LACONIC_TEXT(x) #x
#define LACONIC_VALUE(x) LACONIC_TEXT(x)
LACONIC_LIBRARY(Cublas, cublas, LACONIC_CUBLAS, "cuBLAS", "libcublas.so." LACONIC_VALUE(CUBLAS_VER_MAJOR))
LACONIC_LIBRARY(Cudnn, cudnn, LACONIC_CUDNN, "cuDNN", "libcudnn.so." LACONIC_VALUE(CUDNN_MAJOR))

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw Error(concat("cublas: ", what, ": ", cublas().cublasGetStatusString(status), "."));
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw Error(concat("cudnn: ", what, ": ", cudnn().cudnnGetErrorString(status), "."));
}

namespace {

static_assert(CUDNN_MAJOR >= 9, "cuDNN 9 or later is needed: earlier ones have other status codes");

struct Handles {
  cublasHandle_t blas = nullptr;
  cudnnHandle_t dnn = nullptr;
  Block workspace{};
};

/// The handles of the calling thread's stream. A stream belongs to one thread at a time, and so does what is found
/// here.
Handles& handles() {
  thread_local std::vector<Handles*> mine;  // one for each device, on which a thread's stream never changes
  const auto device = static_cast<std::size_t>(selected());
  if (mine.size() <= device) mine.resize(device + 1);
  if (!mine[device]) {
    static std::mutex& mutex = *new std::mutex;
    static std::map<cudaStream_t, Handles>& all = *new std::map<cudaStream_t, Handles>;
    std::lock_guard lock(mutex);
    mine[device] = &all[stream()];
  }
  return *mine[device];
}

/// The handle, made and bound to the stream at its first use.
template <class Handle, class Create, class Bind>
Handle started(Handle& handle, Create create, Bind bind) {
  if (!handle) {
    Handle made = nullptr;
    check(create(&made), "starting");
    check(bind(made, stream()), "binding it to a stream");
    handle = made;
  }
  return handle;
}

}  // namespace

cublasHandle_t cublas_handle() {
  return started(handles().blas, cublas().cublasCreate_v2, [](cublasHandle_t made, cudaStream_t stream) {
    // Sums that end as bfloat16 are to be float32 until then, also where cuBLAS adds them up in parts.
    const cublasStatus_t status = cublas().cublasSetMathMode(
        made, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    return status == CUBLAS_STATUS_SUCCESS ? cublas().cublasSetStream_v2(made, stream) : status;
  });
}
cudnnHandle_t cudnn_handle() { return started(handles().dnn, cudnn().cudnnCreate, cudnn().cudnnSetStream); }

void* workspace(std::size_t bytes) {
  Block& block = handles().workspace;
  if (bytes > block.capacity) {
    if (block.data) give_back(std::exchange(block, {}));
    try {
      block = allocate(bytes);
    } catch (const NoRoom&) {
      return nullptr;
    }
  }
  return block.data;
}

}  // namespace laconic::cuda
