#pragma once
#include "dist/collective/allgatherv.h"
#include "dist/cuda/nccl.h"

namespace laconic::dist {

/// Allgather of parts whose lengths differ and are known to their owners only, on the device: afterwards all[r] is what
/// rank r gave, on every rank. Every rank sends its part to all others in one exchange. `mine` is memory of the device
/// of `nccl`, `all` was made for it; no rank gives more than `most_bytes`, which is the same everywhere and sizes the
/// buffers (about N most_bytes). As Nccl's calls: on the communication thread, in order.
///   cost     2 alpha + (N-1)(n + 8) beta       n bytes: mean of a part
///   instead  allgatherv over a Communicator
///   throws   CommError as Nccl::exchange; UsageError if `mine` is longer than most_bytes
void nccl_allgather(Nccl& nccl, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all);

/// Before every part: its length.
inline constexpr std::size_t kNcclPartHeader = 8;

}  // namespace laconic::dist
