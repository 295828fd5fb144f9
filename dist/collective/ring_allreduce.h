#pragma once
#include <vector>

#include "compress/bytes.h"
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Ring allreduce: afterwards x holds the sum over ranks, on every rank, bit for bit the same.
///
///   x is cut into N blocks. Block b starts at rank b and moves right, one addend per hop; after N-1 steps rank r holds
///   the finished block r+1, and N-1 more steps pass those round. Which block each rank sends, for N = 4:
///                    reduce-scatter     allgather
///            step      0  1  2           3  4  5
///            rank 0    0  3  2           1  0  3        every message is n/N bytes; every link works in every step;
///            rank 1    1  0  3           2  1  0        a rank talks to its two neighbours only
///            rank 2    2  1  0           3  2  1
///            rank 3    3  2  1           0  3  2
///   A large x travels as P pieces in flight at once, each a ring of its own. Piece j is the j-th part of every block:
///   so every element meets the same addends in the same order for any P, and all P give the same bits. Every receive
///   is posted as soon as its memory is free: those of the first loop at once, into an inbox of N-1 parts; those of the
///   second when the send of the block that they overwrite has ended. A rank that is ahead never waits for the memory
///   of a slower one.
///   With a codec every hop of the first loop is encoded and decoded, while other pieces travel. A finished piece is
///   encoded once, by the rank that holds it, which replaces it by what the others read, and is passed on as bytes: all
///   ranks hold the same bits, and an addend passes through the codec up to N times. P belongs to the result if the
///   codec looks at more than one element at once. A receive is posted when its step begins.
///   cost     2(N-1)P alpha + 2(N-1)/N n beta + (N-1)/N n gamma            n bytes; beta as wire_bytes with a codec
///   memory   (N-1)/N of pieces in flight; with a codec three payloads of 1/N of each
///   instead  butterfly_allreduce for small x: 2 lg N messages
///   source   Patarasuk & Yuan 2009; HybridAR eq. 1; Inceptionn Algorithm 1, whose second loop is printed one block too
///            far (a rank would forward a block it has not finished): its text (P2) is right and is what stands here
///   throws   CommError if a neighbour is lost, sends another length, or what is no payload of the codec
///
/// `payloads`: null, or with a codec becomes what every block was decoded from, the same on every rank: piece j of
/// block b at b*P + j (ring_block). A single rank encodes for this alone. `pieces`: P; 0: pieces_of(n, N).
Task<> ring_allreduce(Communicator& comm, Slice<float> x, int pieces = 0, Hops hops = {},
                      std::vector<compress::Bytes>* payloads = nullptr);
Cost ring_allreduce_cost(int N, double bytes, int pieces = 0, const compress::Codec* codec = nullptr);

/// The ring with P = 1 among two or more ranks, where messages have one order only: NCCL's (dist/cuda/nccl.h).
Task<> ring_in_one_piece(Endpoint& comm, Slice<float> x, Hops hops);

/// Piece j of P of block b of N.
inline Slice<float> ring_block(Slice<float> x, int b, int N, int j, int P) {
  return x.part(static_cast<std::size_t>(b), static_cast<std::size_t>(N))
      .part(static_cast<std::size_t>(j), static_cast<std::size_t>(P));
}

}  // namespace laconic::dist
