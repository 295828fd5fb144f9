#pragma once
#include "dist/collective/cost.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Binomial reduce: afterwards the root's x holds the sum over ranks; the others' x hold partial sums that mean
/// nothing.
///
///   Ranks count from the root. In step s those whose number ends in 1 followed by s zeros give what they have to the
///   rank 2^s before them, and are done; for N = 8:
///            step 0   1 -> 0   3 -> 2   5 -> 4   7 -> 6
///            step 1   2 -> 0   6 -> 4
///            step 2   4 -> 0
///   cost     ceil(lg N) (alpha + n beta + n gamma)                      n bytes
///   instead  reduce_scatter and a gather for large x
///   throws   CommError if a partner is lost or sends another length
Task<> binomial_reduce(Communicator& comm, Slice<float> x, int root = 0);
Cost binomial_reduce_cost(int N, double bytes);

}  // namespace laconic::dist
