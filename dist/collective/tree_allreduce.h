#pragma once
#include <vector>

#include "compress/bytes.h"
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/collective/pieces.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Allreduce over a tree of aggregators: afterwards x holds the sum over ranks, on every rank, bit for bit the same.
///
///   Groups of G neighbours give x to their first rank, which adds it in rank order; the first ranks of G groups do the
///   same among themselves, until one is left. Its sum goes back the same way. N = 8, G = 2:
///            up     1 -> 0   3 -> 2   5 -> 4   7 -> 6         down   0 -> 4
///                   2 -> 0   6 -> 4                                  0 -> 2   4 -> 6
///                   4 -> 0                                           0 -> 1   2 -> 3   4 -> 5   6 -> 7
///   A large x travels as P pieces of 256 KiB, several in flight, so that levels work at the same time. All P give the
///   same bits without a codec, or with one that looks at one element at a time.
///   With a codec what a rank gives away is encoded there; the finished sum is encoded once, by rank 0, which replaces
///   it by what the others read, and goes down as bytes: all ranks hold the same bits, and an addend passes through the
///   codec up to levels + 1 times.
///   cost     2 S P alpha + 2 S n beta + S n gamma    S: children of rank 0 over all levels, (G-1) log_G N for a power
///            n bytes; beta as wire_bytes with a codec. Rank 0's port is what all wait for
///   instead  ring_allreduce, whose ports all carry the same; this is what INCEPTIONN compares rings with
///   source   INCEPTIONN Fig. 1 (a), Fig. 2
///   throws   CommError if a rank next to it in the tree is lost, sends another length, or what is no payload of the
///            codec; UsageError if G < 2
/// `payloads`, unless null: becomes the P pieces' payloads, as all ranks have read them. With a codec only.
Task<> tree_allreduce(Communicator& comm, Slice<float> x, int G, Hops hops = {},
                      std::vector<compress::Bytes>* payloads = nullptr);
Cost tree_allreduce_cost(int N, double bytes, int G, const compress::Codec* codec = nullptr);

/// P for `bytes`: piece j is the j-th of P nearly equal parts of x.
inline int tree_pieces(std::size_t bytes) { return pieces_of(bytes, 1); }

}  // namespace laconic::dist
