#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"

namespace laconic {

/// A block of memory on one device, 64-byte aligned, given back to the caching allocator when the last owner goes.
/// Shared by tensors and their views. Contents are undefined at first.
class Storage {
 public:
  Storage(std::size_t bytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// Counts copies into this memory, through whichever view: Tensor::version() sees them.
  std::uint64_t copies() const { return copies_.load(std::memory_order_relaxed); }
  void count_copy() { copies_.fetch_add(counting_, std::memory_order_relaxed); }
  /// Stops counting. An arena needs that: a copy into one parameter must not make the others look changed.
  void stop_counting() { counting_ = 0; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::size_t capacity_ = 0;  // the size of the pool's block
  void* pool_ = nullptr;      // CUDA only: the stream's pool that it is from
  Device device_;
  std::atomic<std::uint64_t> copies_ = 0;
  std::uint64_t counting_ = 1;
};

/// What the caching allocator of one device holds. Blocks are kept by size class and never returned to the system:
/// a training step asks for the same sizes again and again, and fresh pages cost 10 times what warm ones do
/// (4 KiB page faults; measured 2x on a ResNet-20 step).
struct MemoryStats {
  std::size_t in_use_bytes = 0;     ///< handed out now
  std::size_t peak_bytes = 0;       ///< most ever handed out at once
  std::size_t reserved_bytes = 0;   ///< taken from the system
  std::uint64_t allocations = 0;    ///< calls so far
  std::uint64_t from_system = 0;    ///< calls that found no cached block

  /// One more is handed out.
  void count(std::size_t bytes) {
    ++allocations;
    in_use_bytes += bytes;
    peak_bytes = std::max(peak_bytes, in_use_bytes);
  }
};
/// The size of a block for these bytes: a multiple of `align`, then eighths of a power of two (at most 12.5 % waste),
/// so that the sizes of a step recur.
std::size_t size_class(std::size_t bytes, std::size_t align);
MemoryStats memory_stats(Device device = kCpu);
/// Makes what is in use now the peak: before a part of a program whose own peak is wanted.
void reset_peak(Device device = kCpu);

/// Bytes of Storage that the calling thread has made, less what it has freed: the difference of two readings is what
/// lies in between has allocated and kept, on whichever device, in the sizes that were asked for.
std::ptrdiff_t bytes_made_here();

/// Hands the pages of large cached blocks back to the system (their addresses stay reserved): after set-up, whose
/// blocks no step will ask for again.
void release_unused_memory(Device device = kCpu);

/// While one lives, host code may touch memory of the trap device. Made by the kernel dispatcher (core/dispatch.h)
/// and by explicit copies between host and device; nests. On other devices it does nothing.
class HostAccess {
 public:
  explicit HostAccess(Device device);
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

 private:
  bool trap_;
};

}  // namespace laconic
