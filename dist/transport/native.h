#pragma once
#include <string>

#include "dist/communicator.h"

namespace laconic::dist {

/// What a transport offers whose vendor has collectives of his own, beside sending and receiving.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;
  /// Makes slots [first, first + count) ready for allreduce. Collective and blocking: all ranks call it for the same
  /// slots in the same order. `algorithm`: "" for the vendor's choice; what else there is says the transport.
  virtual void prepare(int first, int count, const std::string& algorithm) = 0;
  /// Starts to sum the request's memory (floats) over all ranks, in place; completes it like a transfer. Its slot is
  /// the operation's. Host memory.
  virtual void allreduce(Request& request) = 0;
};

}  // namespace laconic::dist
