#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"

/// Work that a device does beside the host. Each host thread has a stream of its own on each device: what one thread
/// asks for happens in that order, and what two threads ask for in any order, unless an Event says otherwise. On the
/// CPU (trap and ghosts too) work has ended when the call returns, so that everything here does nothing.
namespace laconic {

/// CUDA devices that can be used: 0 without a driver, or in a build without CUDA. Never throws.
int cuda_devices();
/// What is in the way if there are none: "no CUDA-capable device is detected".
std::string why_no_cuda_device();
/// Their name: "NVIDIA H200". Throws Error if there is no such device.
std::string cuda_device_name(int index);
/// 90 for an H100's 9.0. From 80 on tensor cores take bfloat16 and TF32. Throws Error if there is no such device.
int cuda_compute_capability(int index);

/// Returns when all work that the calling thread gave the device has ended.
/// Throws Error if a kernel failed, and DataError if one found a value that cannot be (core/cuda/runtime.h).
void synchronize(Device device);
/// Throws what those kernels of the calling thread have found that have ended, as synchronize() does, and waits for
/// nothing: where an Event has been waited for.
void throw_findings(Device device);

/// A point in the work of a device. Copies stand for the same point.
class Event {
 public:
  Event() = default;  ///< nothing to wait for
  /// What the calling thread has asked of the device so far.
  static Event now(Device device);
  /// What the calling thread asks of the device from now on comes after this point. Returns at once.
  void wait() const;
  /// Returns when this point has been reached.
  void synchronize() const;
  bool reached() const;

 private:
  std::shared_ptr<void> mark_;  // the device's, if it works beside the host
  Device device_{};
};

/// to[0 … bytes) = from[0 … bytes), each on any device. Where host memory takes part it has happened on return (all
/// that the calling thread asked of the device before, too); between memory of devices it happens in the order of the
/// calling thread's work.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
/// Copies without waiting: host memory must be Pinned, and left alone until an Event recorded afterwards is reached.
void copy_bytes_later(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
/// Bytes that copies have brought from CUDA devices to host memory since the program started.
/// Tests hold what a step should bring there against it.
std::uint64_t copied_to_host_bytes();
/// How often host threads have waited for CUDA devices since the program started, for tests too.
std::uint64_t waits_for_devices();
/// The bytes become zero, in the order of the calling thread's work.
void zero_bytes(void* to, Device device, std::size_t bytes);

/// Host memory that a device copies from and to by itself, beside its other work; plain memory where there is none.
/// From a pool, since pinning pages takes longer than most copies; contents undefined. Copies are the same memory.
class Pinned {
 public:
  Pinned() = default;
  Pinned(std::size_t bytes, Device device);

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return memory_ ? bytes_ : 0; }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace laconic
