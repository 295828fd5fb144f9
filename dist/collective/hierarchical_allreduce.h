#pragma once
#include <cstdint>

#include "dist/collective/cost.h"
#include "dist/collective/hop.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// How the first ranks of groups add up what their groups have: by a ring, or by a tree of groups of G again
/// (tree_allreduce).
enum class LeadersBy : std::uint8_t { ring, tree };

/// Hierarchical allreduce over groups of G neighbours: afterwards x holds the sum over ranks, on every rank, bit for
/// bit the same. The first rank of a group leads it; the last group is smaller if G does not divide N.
///
///   N = 8, G = 4, k = 4 ranks in a group, two leaders L:
///            reduce inside       ring reduce-scatter, then 1 2 3 -> L, 5 6 7 -> L       2(k-1) messages at a leader
///            ring of leaders     L0 <-> L4                                              2(ceil(N/k)-1)
///            broadcast inside    L -> 1 2 3, L -> 5 6 7, then a ring allgather          2(k-1)
///   By a tree the leaders' sums go to the first of each G of them instead, level by level, and back: rings at the
///   leaves, aggregators above. G is then at least 2.
///   With a codec what is added up is encoded and decoded at every hop. Finished blocks are encoded once, among the
///   leaders; the payloads are what the broadcast passes on, cut into k equal stretches of bytes, however long each
///   payload is. All ranks read the same payloads, also in groups of other sizes: they hold the same bits, and an
///   addend passes through the codec up to k + ceil(N/k) times.
///   cost     (4(k-1) + 2(g-1)) alpha + (4(k-1)/k + 2(g-1)/g) n beta + ((k-1)/k + (g-1)/g) n gamma
///            n bytes, k = min(G, N), g = ceil(N/G); with a codec beta as wire_bytes, and 4 bytes more for every
///            payload and stretch of the broadcast. By a tree that of tree_allreduce instead of the g-terms
///   instead  ring_allreduce or butterfly_allreduce where all links are alike: this one pays where those inside of a
///            group are much faster than those between groups
///   source   Jia et al. 2018 (arXiv 1807.11205); HybridAR eq. 3. INCEPTIONN Fig. 1: rings at all levels are its (c),
///            by a tree its (b)
///   settled  eq. 3 prints 4(k-1) + 2(p/k-1) steps with its letters mislabelled: k is the size of a group, p is N
///   throws   CommError if a neighbour is lost, sends another length, or what is no payload of the codec; with a codec
///            also unless x lies on the CPU. UsageError if G < 1, by a tree G < 2
Task<> hierarchical_allreduce(Communicator& comm, Slice<float> x, int G, Hops hops = {},
                              LeadersBy by = LeadersBy::ring);
Cost hierarchical_allreduce_cost(int N, double bytes, int G, const compress::Codec* codec = nullptr,
                                 LeadersBy by = LeadersBy::ring);

}  // namespace laconic::dist
