#pragma once
#include <functional>

#include "dist/communicator.h"
#include "dist/cuda/nccl.h"

namespace laconic::dist {

/// Runs a collective over NCCL's exchanges, to its end; memory that travels is the device's, and `of` counts what the
/// collective takes for its messages. What it sends and receives until it waits is one exchange; so every rank's must
/// come to wait at the same places: a ring does, in one piece, each of whose steps is a message there and one here.
/// There are no groups of ranks and no channels, which would share one order. As Nccl's calls: on the communication
/// thread, in order.
///     run_grouped(nccl, comm, [&](Communicator& grouped) { return ring_allreduce(grouped, x, {}, hops); });
/// throws what the collective does, and CommError as Nccl::exchange; UsageError if it asks for a group or a channel
void run_grouped(Nccl& nccl, Communicator& of, const std::function<Task<>(Communicator&)>& collective);

}  // namespace laconic::dist
