#pragma once
#include <memory>
#include <span>

#include "core/slice.h"

namespace laconic::dist {

class Engine;

/// NCCL between the GPUs of all ranks: a GPU each. All is asked of the device and happens in the order of its work. Who
/// sends what in a sum is NVIDIA's secret: its bytes are in no count. What is exchanged is counted, lengths too.
///
/// The calls below are made on the communication thread, in operations with `in_order`, by all ranks in one order. When
/// one throws, NCCL has been stopped on this rank for good, since what the ranks ask for would match no more.
class Nccl {
 public:
  /// All ranks of the engine call it together, on their compute threads. The engine must outlive it. An engine has one
  /// at a time: several users share it.
  /// Throws UsageError if `device` is no CUDA device or two ranks share one, Error if NCCL cannot be opened or started.
  static std::shared_ptr<Nccl> make(Engine& engine, Device device);
  virtual ~Nccl() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Device device() const = 0;  ///< this rank's device

  /// x becomes the sum over ranks, on every rank the same bits. No host waits for another, but for the first that NCCL
  /// joins ranks for: a rank that is lost, or does not come within the engine's time-out, ends the engine.
  virtual void allreduce(Slice<float> x) = 0;

  /// Memory of the device, or nothing; all that an exchange moves stays as it is until the device has come to its end.
  struct Outgoing {
    int to;
    Slice<const std::byte> bytes;
  };
  struct Incoming {
    int from;
    Slice<std::byte> room;
    std::size_t came = 0;  ///< bytes of the message, at the beginning of the room; exchange() sets it
  };
  /// Messages of lengths that only their senders know; any number, to and from other ranks. Those between two ranks
  /// match by their order, and in the same exchange: counted on each rank, the n-th of one is the n-th of the other.
  ///   lengths    8 bytes a message, in one group; the host waits until they have travelled
  ///   messages   in one more, without waiting: what the device does later finds them
  /// throws CommError if a length is above the room for it, if a rank does not come within the engine's time-out, or if
  ///        the engine is to stop
  virtual void exchange(std::span<const Outgoing> out, std::span<Incoming> in) = 0;

  /// Ends what is under way on this rank, for good: the device waits for no other any more. From any thread.
  virtual void stop() noexcept = 0;
};

}  // namespace laconic::dist
