#pragma once
#include <memory>

#include "core/slice.h"

namespace laconic::dist {

class Engine;

/// NCCL between the GPUs of all ranks: a GPU each. Sums are asked of the device and happen in the order of its work, so
/// that no host waits for another. Who sends what is NVIDIA's secret: its bytes are in no count, and a rank that is
/// lost shows only where a host waits for its device.
class Nccl {
 public:
  /// All ranks of the engine together, on their compute threads; the engine outlives it. One at a time.
  /// Throws UsageError if `device` is no CUDA device or two ranks share one, Error if NCCL cannot be opened or started.
  static std::shared_ptr<Nccl> make(Engine& engine, Device device);
  virtual ~Nccl() = default;

  /// x becomes the sum over ranks, on every rank the same bits. On the communication thread, in an operation with
  /// `in_order`: all ranks ask for the same sums in the same order.
  virtual void allreduce(Slice<float> x) = 0;
};

}  // namespace laconic::dist
