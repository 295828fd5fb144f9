#pragma once
#include "core/cuda/device.h"

/// The device's own clock, for benchmarks: without what the host takes to ask and to wait.
namespace laconic::cuda {

/// A point of what the calling thread asks of its device, as mark(), whose time is kept.
Mark timed_mark();
/// Waits for the later.
double seconds_between(const Mark& earlier, const Mark& later);

}  // namespace laconic::cuda
