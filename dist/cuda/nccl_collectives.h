#pragma once
#include <functional>

#include "dist/collective/allgatherv.h"
#include "dist/engine/communicator.h"
#include "dist/cuda/nccl.h"

/// Collectives over NCCL's exchanges. As Nccl's calls: on the communication thread, in order.
namespace laconic::dist {

/// Runs a collective over NCCL's exchanges, to its end; memory that travels is the device's, and `of` counts what the
/// collective takes for its messages. What it sends and receives until it waits is one exchange; so every rank's must
/// come to wait at the same places: a ring does, in one piece, each of whose steps is a message there and one here.
///     run_grouped(nccl, comm, [&](Endpoint& grouped) { return ring_in_one_piece(grouped, x, hops); });
/// throws what the collective does, and CommError as Nccl::exchange
void run_grouped(Nccl& nccl, Endpoint& of, const std::function<Task<>(Endpoint&)>& collective);

/// Allgather of parts whose lengths differ and are known to their owners only, on the device: afterwards all[r] is what
/// rank r gave, on every rank. Every rank sends its part to all others in one exchange. `mine` is memory of the device
/// of `nccl`, `all` was made for it; no rank gives more than `most_bytes`, which is the same everywhere and sizes the
/// buffers (about N most_bytes).
///   cost     2 alpha + (N-1)(n + 8) beta       n bytes: mean of a part
///   instead  allgatherv over a Communicator
///   throws   CommError as Nccl::exchange; UsageError if `mine` is longer than most_bytes
void nccl_allgather(Nccl& nccl, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all);

/// Before every part: its length.
inline constexpr std::size_t kNcclPartHeader = 8;

}  // namespace laconic::dist
