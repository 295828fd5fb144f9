#pragma once
#include "dist/collective/cost.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Dissemination barrier: no rank leaves before every rank has entered.
///
///   In step s rank r sends an empty message to r + 2^s and waits for one from r - 2^s; after ceil(lg N) steps word of
///   everyone has come round.
///   cost     ceil(lg N) alpha
///   source   Hensgen, Finkel & Manber 1988
///   throws   CommError if a rank is lost
Task<> barrier(Communicator& comm);
Cost barrier_cost(int N);

}  // namespace laconic::dist
