#pragma once
#include "dist/collective/cost.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Recursive-doubling allgather: rank r brings the r-th of N nearly equal blocks of x; afterwards everyone has all of
/// x.
///
///   In step s rank r swaps all that it holds with r ^ 2^s. Blocks held, for N = 4:
///                     start     step 0: r^1    step 1: r^2
///            rank 0   0         0 1            0 1 2 3
///            rank 1     1       0 1            0 1 2 3
///            rank 2       2         2 3        0 1 2 3
///            rank 3         3       2 3        0 1 2 3
///   If N is no power of two it runs ring_allgather, and its cost is that one's.
///   cost     lg N alpha + (N-1)/N n beta                                n bytes of x
///   instead  ring_allgather for large x: it talks to two neighbours only
///   source   Thakur, Rabenseifner & Gropp 2005
///   throws   CommError if a partner is lost or sends another length
Task<> doubling_allgather(Communicator& comm, Slice<float> x);
Cost doubling_allgather_cost(int N, double bytes);

}  // namespace laconic::dist
