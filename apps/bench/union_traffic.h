#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dist/method/ledger.h"

namespace laconic {

/// The traffic of N ranks for parameters that send a choice: means over steps and ranks, by --sparse-reduce.
struct UnionTraffic {
  int workers = 0;
  std::int64_t elements = 0;   ///< of these parameters
  double density = 0;          ///< share of the elements that a rank chose
  double union_density = 0;    ///< share that some rank chose
  double independent = 0;      ///< that share if ranks chose independently of one another
  double allgather_bytes = 0;  ///< that a rank sends in a step
  double split_bytes = 0;      ///< likewise
  double dense_bytes = 0;      ///< what it would send in a ring allreduce of all elements
};

/// 1 - (1 - d)^N: the share of elements that some of N ranks choose, if each chooses a share d of its own.
double independent_union(double density, int workers);

/// gathered, split : the ledgers of all ranks after a training with --sparse-reduce allgather, and after one with
/// split. Parameters that travel whole are left out. 0 everywhere if there are no others.
UnionTraffic union_traffic(int workers, const std::vector<std::vector<dist::LedgerRow>>& gathered,
                           const std::vector<std::vector<dist::LedgerRow>>& split);

/// The first of these numbers of workers from which on split sends less; nothing if it does not for the last of them.
std::optional<int> crossing(const std::vector<UnionTraffic>& by_workers);

}  // namespace laconic
