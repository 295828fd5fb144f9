#pragma once
#include "dist/collective/hop.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Ring reduce-scatter: afterwards rank r's r-th of N nearly equal blocks of x holds the sum over ranks; its other
/// blocks hold partial sums that mean nothing.
///
///   Block b starts at rank b+1 and moves right, one addend per hop, until it is at rank b. Which block each rank
///   sends, for N = 4:
///            step      0  1  2
///            rank 0    3  2  1        every message is n/N bytes; every link works in every step
///            rank 1    0  3  2
///            rank 2    1  0  3
///            rank 3    2  1  0
///   With a codec every hop is encoded and decoded once: the sum carries up to N-1 of its errors.
///   cost     (N-1) alpha + (N-1)/N n beta + (N-1)/N n gamma             n bytes; beta as wire_bytes with a codec
///   instead  ring_allreduce if everyone needs everything
///   source   Thakur, Rabenseifner & Gropp 2005 (there: pairwise exchange)
///   throws   CommError if a neighbour is lost, sends another length, or what is no payload of the codec
Task<> reduce_scatter(Communicator& comm, Slice<float> x, Hops hops = {});

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
///   instead  allgatherv for parts of any length
///   throws   CommError if a neighbour is lost, sends another length, or what is no payload of the codec
Task<> ring_allgather(Communicator& comm, Slice<float> x, Hops hops = {});

}  // namespace laconic::dist
