#pragma once
#include <string>
#include <vector>

#include "dist/collective/cost.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// Ring allgather of texts or other small blobs of any length: afterwards all[i] is what rank i gave, on every rank.
///
///   First the lengths go round (8 bytes, little-endian), so that everyone has room; then the blobs: in step s rank r
///   sends blob r-s to the right and receives blob r-s-1 from the left.
///   cost     2(N-1) alpha + (8 (N-1) + sum of the other ranks' lengths) beta
///   throws   CommError if a neighbour is lost, or announces more than 1 GiB
Task<> allgather_blobs(Communicator& comm, const std::string& mine, std::vector<std::string>& all);

/// Sums a few numbers exactly alike everywhere: afterwards x holds the sum over ranks, added in rank order in double.
/// For losses, counts and norms; not for gradients: everyone sends x to everyone.
///   cost     2(N-1) alpha + (N-1) (n + 8) beta                             n bytes
Task<> sum_over_ranks(Communicator& comm, Slice<double> x);

}  // namespace laconic::dist
