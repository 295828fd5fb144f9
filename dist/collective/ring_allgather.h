#pragma once
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Ring allgather: rank r brings the r-th of N nearly equal blocks of x; afterwards everyone has all of x.
///
///   Every block goes round once. Which block each rank sends, for N = 4:
///            step      0  1  2
///            rank 0    0  3  2
///            rank 1    1  0  3
///            rank 2    2  1  0
///            rank 3    3  2  1
///   With a codec a block is encoded once, by the rank that brings it, and passed on as bytes; that rank replaces its
///   own block by what the others read, so that all ranks hold the same bits.
///   cost     (N-1) alpha + (N-1)/N n beta                               n bytes of x; beta as wire_bytes with a codec
///   instead  doubling_allgather for small x; allgatherv for parts of any length
///   throws   CommError if a neighbour is lost, sends another length, or what is no payload of the codec
Task<> ring_allgather(Communicator& comm, Slice<float> x, Hops hops = {});
Cost ring_allgather_cost(int N, double bytes, const compress::Codec* codec = nullptr);

}  // namespace laconic::dist
