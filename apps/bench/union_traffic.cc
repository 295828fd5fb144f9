#include "apps/bench/union_traffic.h"

#include <algorithm>
#include <cmath>

#include "dist/collective/ring_allreduce.h"

namespace laconic {
namespace {

bool chosen(const dist::LedgerRow& row) { return row.exchanges > 0; }

/// Bytes of a step and of a rank.
double bytes_sent(const std::vector<std::vector<dist::LedgerRow>>& ledgers) {
  double bytes = 0;
  for (const auto& ledger : ledgers)
    for (const dist::LedgerRow& row : ledger)
      if (chosen(row)) bytes += row.bytes / static_cast<double>(row.exchanges);
  return bytes / std::max<double>(1, static_cast<double>(ledgers.size()));
}

}  // namespace

double independent_union(double density, int workers) { return 1 - std::pow(1 - density, workers); }

UnionTraffic union_traffic(int workers, const std::vector<std::vector<dist::LedgerRow>>& gathered,
                           const std::vector<std::vector<dist::LedgerRow>>& split) {
  UnionTraffic t;
  t.workers = workers;
  double sent = 0, united = 0, independent = 0;
  for (const auto& ledger : gathered)
    for (const dist::LedgerRow& row : ledger) {
      if (!chosen(row)) continue;
      const auto n = static_cast<double>(row.elements), ranks = static_cast<double>(gathered.size());
      sent += row.sent / ranks;
      if (&ledger != &gathered.front()) continue;  // what follows is the same on all ranks
      t.elements += row.elements;
      united += n * row.union_density;
      independent += n * independent_union(row.sent / n, workers);
    }
  if (t.elements == 0) return t;
  const auto elements = static_cast<double>(t.elements);
  t.density = sent / elements;
  t.union_density = united / elements;
  t.independent = independent / elements;
  t.allgather_bytes = bytes_sent(gathered);
  t.split_bytes = bytes_sent(split);
  t.dense_bytes = dist::ring_allreduce_cost(workers, 4 * elements).bytes;
  return t;
}

std::optional<int> crossing(const std::vector<UnionTraffic>& by_workers) {
  std::optional<int> from;
  for (const UnionTraffic& t : by_workers)
    if (t.split_bytes >= t.allgather_bytes)
      from.reset();
    else if (!from)
      from = t.workers;
  return from;
}

}  // namespace laconic
