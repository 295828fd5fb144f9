#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/memory.h"

namespace laconic {

/// What training steps take of a device's memory beyond what is held between them, as the allocator hands it out
/// (blocks are up to half larger than what is asked for). It counts all workers of a process together; one of them
/// asks.
class StepMemory {
 public:
  explicit StepMemory(Device device) : device_(device) {}
  void begin() { reset_peak(device_); }  ///< before the first step, and where steps go on after something else
  void after_step() { peak_ = std::max(peak_, memory_stats(device_).peak_bytes); }
  /// No worker is in a step: parameters, gradients, the optimiser's state and batches prepared ahead are held, and
  /// weights in their kernels' order.
  void between_steps() { held_ = std::min(held_, memory_stats(device_).in_use_bytes); }

  std::size_t peak_bytes() const { return peak_; }  ///< in steps, all in all; 0: none seen, or a sanitizer allocates
  /// Activations, their gradients, and kernels' work space; of all steps the most.
  std::size_t activation_bytes() const { return held_ < peak_ ? peak_ - held_ : 0; }

 private:
  Device device_;
  std::size_t peak_ = 0, held_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace laconic
