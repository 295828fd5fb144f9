#pragma once
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Butterfly (Rabenseifner) allreduce: afterwards x holds the sum over ranks, on every rank, bit for bit the same.
///
///   Reduce-scatter by halving: in each of lg N steps a rank swaps with the partner whose number differs in one bit,
///   keeps the half of its range that the bit names, gives the other half away, and adds what comes. Then allgather by
///   doubling: the same partners backwards, each passing on all that it holds. Blocks held, for N = 4:
///                     start     partner r^2   partner r^1 | partner r^1   partner r^2
///            rank 0   0 1 2 3   0 1           0           | 0 1           0 1 2 3
///            rank 1   0 1 2 3   0 1             1         | 0 1           0 1 2 3
///            rank 2   0 1 2 3       2 3           2       |     2 3       0 1 2 3
///            rank 3   0 1 2 3       2 3             3     |     2 3       0 1 2 3
///   With p the largest power of two in N and N = p + e, the first 2e ranks work in pairs: the even one adds its x to
///   its right neighbour's, sits out, and gets the result at the end.
///   Messages are cut at 256 KiB: larger ones, in both directions of one pair at once, lose up to half of a TCP link.
///   With a codec x is cut into S pieces of up to 512 KiB instead, each a butterfly of its own beside the others, so
///   that one is encoded while others travel. Every message of the first loop is encoded and decoded; then each rank
///   encodes its finished block once, replaces it by what the others read, and the payloads go on together as the
///   parts of an allgatherv: all ranks hold the same bits, and an addend passes through the codec up to lg p + 2 times.
///   cost     2 lg p alpha + 2(p-1)/p n beta + (p-1)/p n gamma; if e > 0 also 2 alpha + 2 n beta + n gamma
///            n bytes; one alpha a message, more where they are cut; with a codec S of each alpha, beta as wire_bytes,
///            and 4 bytes more for every payload of the second loop
///   instead  ring_allreduce for large x, or N not a power of two: it has no pairs, and talks to two neighbours only
///   source   Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005; HybridAR eq. 2
///   throws   CommError if a partner is lost, sends another length, or what is no payload of the codec; with a codec
///            also unless x lies on the CPU
Task<> butterfly_allreduce(Communicator& comm, Slice<float> x, Hops hops = {});
Cost butterfly_allreduce_cost(int N, double bytes, const compress::Codec* codec = nullptr);

}  // namespace laconic::dist
