#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "core/memory.h"

/// What core/memory.h and core/stream.h do on CUDA devices, without the types of CUDA's headers. Builds without CUDA
/// have the declarations alone. All but select() and what counts devices are for the calling thread's device and its
/// stream there.
namespace laconic::cuda {

/// 0 without a driver. Never throws.
int device_count();
/// What CUDA says if there is none.
const std::string& why_no_device();

/// Makes a device the calling thread's: what it launches and allocates goes there. Free where it is already.
/// Throws Error if there is no such device.
void select(int index);

std::string device_name();
int compute_capability();

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

MemoryStats memory_stats();
void reset_peak();
/// Waits for the device, then hands cached blocks back to the driver.
void release_unused();

void synchronize();
/// Throws DataError if a kernel has reported something since the last call (core/cuda/runtime.h), and forgets it.
void throw_findings();

/// An event of CUDA's.
using Mark = std::shared_ptr<void>;
Mark mark();
void wait(const Mark& mark);
void synchronize(const Mark& mark);
bool reached(const Mark& mark);

/// In the stream's order. Either may be memory of the host or of any device.
void copy_later(void* to, const void* from, std::size_t bytes);
void zero_later(void* to, std::size_t bytes);

/// Pinned host memory, from a pool that it goes back to.
std::shared_ptr<std::byte[]> pinned(std::size_t bytes);

/// As mark(), with its time by the device's own clock: for benchmarks.
Mark timed_mark();
/// Waits for the later.
double seconds_between(const Mark& earlier, const Mark& later);

}  // namespace laconic::cuda
