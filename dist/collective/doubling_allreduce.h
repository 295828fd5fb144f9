#pragma once
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Recursive-doubling allreduce: afterwards x holds the sum over ranks, on every rank, bit for bit the same.
///
///   In step s rank r swaps all of x with r ^ 2^s and adds what comes. Whose addends a rank holds, for N = 4:
///                     start     step 0: r^1    step 1: r^2
///            rank 0   0         0 1            0 1 2 3
///            rank 1     1       0 1            0 1 2 3
///            rank 2       2         2 3        0 1 2 3
///            rank 3         3       2 3        0 1 2 3
///   With p the largest power of two in N and N = p + e, the first 2e ranks work in pairs: the even one adds its x to
///   its right neighbour's, sits out, and gets the result at the end. With a codec both partners add what both have
///   sent: own values are replaced by what the other one decodes, and ranks that hold the same encode with the same
///   key, so that all come to the same bits.
///   cost     lg p (P alpha + n beta + n gamma);  if e > 0 also 2 P alpha + 2 n beta + n gamma
///            n bytes in P = messages_of(n) pieces; beta as wire_bytes with a codec
///   instead  butterfly_allreduce or ring_allreduce once n beta counts: here every step carries all of x
///   source   Thakur, Rabenseifner & Gropp 2005; HybridAR's butterfly where it "sends the whole message at each step"
///   throws   CommError if a partner is lost, sends another length, or what is no payload of the codec
Task<> doubling_allreduce(Communicator& comm, Slice<float> x, Hops hops = {});
Cost doubling_allreduce_cost(int N, double bytes, const compress::Codec* codec = nullptr);

}  // namespace laconic::dist
