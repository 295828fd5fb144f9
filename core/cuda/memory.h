#pragma once
#include "core/memory.h"

/// What core/memory.h says of a device's caching allocator, for CUDA devices.
namespace laconic::cuda {

MemoryStats memory_stats_of(int index);
void reset_peak_of(int index);
/// Waits for the device, then hands cached blocks back to the driver.
void release_unused_of(int index);

}  // namespace laconic::cuda
