#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "core/cuda/device.h"
#include "core/base/error.h"

/// CUDA devices, streams and memory, for the files that launch kernels or call CUDA's libraries.
namespace laconic::cuda {

/// Throws Error "cuda: WHAT: what CUDA says." unless the status is success.
void check(cudaError_t status, const char* what);

/// What allocate() throws.
class NoRoom final : public Error {
 public:
  using Error::Error;
};

int selected();  ///< the calling thread's device: see select()

/// The calling thread's stream on its device. Given back when the thread ends, for the next one to use.
cudaStream_t stream();

/// What a kernel's shape depends on, of the calling thread's device.
struct DeviceLimits {
  int multiprocessors = 1;
  std::size_t memory_bytes = 0;
  int compute_capability = 0;  ///< 90 for 9.0
};
const DeviceLimits& limits();

}  // namespace laconic::cuda
