#pragma once
#include "dist/collective/cost.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Binomial broadcast: afterwards every rank's `bytes` are the root's.
///
///   Ranks count from the root. In step s everyone who has the data passes it on 2^s ranks further; for N = 8:
///            step 0   0 -> 1
///            step 1   0 -> 2   1 -> 3
///            step 2   0 -> 4   1 -> 5   2 -> 6   3 -> 7
///   cost     ceil(lg N) (alpha + n beta)                                n bytes
///   instead  of nothing: used for initial weights and plans, once a run
///   throws   CommError if the rank before is lost or sends another length
Task<> broadcast(Communicator& comm, Slice<std::byte> bytes, int root = 0);
Cost broadcast_cost(int N, double bytes);

}  // namespace laconic::dist
