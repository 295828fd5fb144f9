#pragma once
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Personalised exchange of parts whose lengths differ: rank r gives parts[d] to rank d; afterwards all[s] is what rank
/// s gave to this one. No part may be longer than `most_bytes`, which is the same everywhere and sizes the buffers
/// (N most_bytes bytes in `all`). Parts may be empty: every pair of ranks exchanges a message, so that none waits in
/// vain. `parts` must outlive the operation.
///
///   In step s rank r sends to r + s and receives from r - s (mod N); all receives are posted ahead, and every rank's
///   sends go to different ranks at a time.
///   cost     (N-1) alpha + (N-1) n beta                       n bytes: mean of a part
///   source   Thakur, Rabenseifner & Gropp 2005 (MPI_Alltoallv, pairwise)
///   throws   UsageError if a part is longer than most_bytes; CommError if a rank is lost, or sends more than that
Task<> alltoallv(Communicator& comm, const std::vector<compress::Bytes>& parts, std::size_t most_bytes, Gathered& all);

}  // namespace laconic::dist
