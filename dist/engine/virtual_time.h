#pragma once
#include <functional>

#include "dist/engine/engine.h"
#include "dist/engine/ghost_work.h"
#include "dist/transport/link.h"

namespace laconic::dist {

/// Ranks on a network, neither of which is there.
struct VirtualNetwork {
  int ranks = 1;
  LinkOptions links{};
  WorkCosts work{};
  GhostPayloads payloads{};
  /// Simulates rank 0 alone: what it sends at any moment, it receives from its neighbours as they send it. That is
  /// right where all ranks do the same at the same time (AllreduceKind::alike) over equal links without jitter.
  bool mirrored = false;
};

/// One rank in virtual time: the operations, coroutines, priorities and pieces of a ThreadEngine, over SwitchModel's
/// network, with time that passes only where somebody says so. Work on ghosts takes the time of the thread that does
/// it.
class VirtualEngine : public Engine {
 public:
  /// Seconds since the beginning, of this rank's compute thread.
  virtual double now() const = 0;
  /// It computes for so long.
  virtual void compute(double seconds) = 0;
};

/// Runs `body` once for each rank, of which one runs at any moment (a mirrored or only one in the calling thread), and
/// returns when all have ended. All is decided by virtual time, so two runs are equal. Memory of the CPU is really
/// moved, so results have the bits of every other transport; ghosts travel as lengths.
///   cost     a few microseconds for each message and segment (SwitchModel), times the number of ranks
///   throws   the first error of a rank; CommError if all ranks wait for each other
void run_in_virtual_time(const VirtualNetwork& network, const std::function<void(VirtualEngine&)>& body);

}  // namespace laconic::dist
