#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/cuda/device.h"

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

// Values that a kernel finds impossible, where the host does not wait to be told: a kernel writes them here, and the
// next synchronize() of its thread throws.
enum class Finding : std::int32_t { none, label, index };

/// In pinned memory that the device writes and the host reads after synchronising; one for each stream.
struct Report {
  std::int32_t finding = 0;   ///< Finding: the first that was written, if there are several
  std::int64_t position = 0;  ///< the value's position
  std::int64_t value = 0;
  std::int64_t limit = 0;  ///< the bound that it had to be below
};

/// The report of the calling thread's stream.
Report* report();

}  // namespace laconic::cuda
