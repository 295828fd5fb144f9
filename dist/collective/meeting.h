#pragma once
#include <string>
#include <vector>

#include "dist/engine/communicator.h"

/// How ranks come to the same facts now and then: not for gradients.
namespace laconic::dist {

/// Dissemination barrier: no rank leaves before every rank has entered.
///
///   In step s rank r sends an empty message to r + 2^s and waits for one from r - 2^s; after ceil(lg N) steps word of
///   everyone has come round.
///   cost     ceil(lg N) alpha
///   source   Hensgen, Finkel & Manber 1988
///   throws   CommError if a rank is lost
Task<> barrier(Communicator& comm);

/// Binomial broadcast: afterwards every rank's `bytes` are the root's.
///
///   Ranks count from the root. In step s everyone who has the data passes it on 2^s ranks further; for N = 8:
///            step 0   0 -> 1
///            step 1   0 -> 2   1 -> 3
///            step 2   0 -> 4   1 -> 5   2 -> 6   3 -> 7
///   cost     ceil(lg N) (alpha + n beta)                                n bytes
///   instead  of nothing: used for initial weights and plans, once a run
///   largest  bytes of a message: what is longer goes in several, since MPI takes none of 2 GiB
///   throws   CommError if the rank before is lost or sends another length
Task<> broadcast(Communicator& comm, Slice<std::byte> bytes, int root = 0, std::size_t largest = std::size_t{1} << 30);

/// Ring allgather of texts or other small blobs of any length: afterwards all[i] is what rank i gave, on every rank.
///
///   First the lengths go round (8 bytes, little-endian), so that everyone has room; then the blobs: in step s rank r
///   sends blob r-s to the right and receives blob r-s-1 from the left.
///   cost     2(N-1) alpha + (8 (N-1) + sum of the other ranks' lengths) beta
///   throws   CommError if a neighbour is lost, or announces more than 1 GiB
Task<> allgather_blobs(Communicator& comm, const std::string& mine, std::vector<std::string>& all);

/// Gathers texts or other blobs of any length on rank 0, one rank after another: there all[i] is what rank i gave; on
/// the others `all` is empty.
///
///   cost     on rank 0 (N-1) (2 alpha + 8 beta) + (sum of the other ranks' lengths) beta
///   throws   CommError if a rank is lost, or announces more than 1 GiB
Task<> gather_blobs(Communicator& comm, const std::string& mine, std::vector<std::string>& all);

/// Sums a few numbers exactly alike everywhere: afterwards x holds the sum over ranks, added in rank order in double.
/// For losses, counts and norms; not for gradients: everyone sends x to everyone.
///   cost     2(N-1) alpha + (N-1) (n + 8) beta                             n bytes
Task<> sum_over_ranks(Communicator& comm, Slice<double> x);
/// Does the same, and all[i] is what rank i gave.
Task<> sum_over_ranks(Communicator& comm, Slice<double> x, std::vector<std::vector<double>>& all);

}  // namespace laconic::dist
