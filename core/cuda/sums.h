#pragma once
#include <cstdint>

#include "core/cuda/runtime.h"
#include "core/stream.h"

/// What kernels that end in a few numbers share.
namespace laconic::cuda {

/// total (if not null) = the sum of n doubles, y (if not null) = a times it, always in the same order.
void add_up(double* total, float* y, double a, const double* values, std::int64_t n);

/// The value at p, after all that this thread has asked for. Waits.
template <class T>
T host_value(const T* p) {
  T value;
  copy_bytes(&value, kCpu, p, Device{Device::Kind::cuda, selected()}, sizeof value);
  return value;
}

}  // namespace laconic::cuda
