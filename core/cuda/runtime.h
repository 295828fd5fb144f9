#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "core/cuda/select.h"
#include "core/error.h"

/// CUDA devices, streams and memory, for the files that launch kernels or call CUDA's libraries.
namespace laconic::cuda {

/// 0 without a driver. Never throws.
int device_count();
/// What CUDA says if there is none.
const std::string& why_no_device();

/// Throws Error "cuda: WHAT: what CUDA says." unless the status is success.
void check(cudaError_t status, const char* what);

int selected();  ///< the calling thread's device: see select()

/// The calling thread's stream on its device. Given back when the thread ends, for the next one to use.
cudaStream_t stream();

/// What a kernel's shape depends on, of the calling thread's device; or of any.
struct DeviceLimits {
  int multiprocessors = 1;
  std::size_t memory_bytes = 0;
  int compute_capability = 0;  ///< 90 for 9.0
};
const DeviceLimits& limits();
const DeviceLimits& limits_of(int index);

/// A block from the caching allocator of the calling thread's stream, at least `bytes` long, 256-byte aligned.
/// `capacity` receives its true size. A later block may be the same memory as soon as this one is given back: the
/// stream's order keeps them apart. Throws Error if the device has no more (after handing back what is cached).
struct Block {
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  void* pool = nullptr;  // whose it is
};
Block allocate(std::size_t bytes);
/// From any thread: where it is not the one that allocated, what that thread has asked for so far still finds the
/// block.
void give_back(const Block& block) noexcept;

}  // namespace laconic::cuda
