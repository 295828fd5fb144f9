#include "dist/plan/choice.h"

#include <algorithm>
#include <cmath>

#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

/// Whether it takes less time to select, exchange and add up k of n elements than to reduce all n in a ring together
/// with neighbours, whose messages cost their latency anyway.
///   sparse   T_select + ceil(lg N) a + (N-1) w k b        w: 8 bytes for index and value, 4 for an index alone
///   dense    2 (N-1)/N 4 n b
/// source   RedSync 3 (cost model); its terms for adding up are small beside these and left out
bool sparse_is_faster(std::int64_t elements, bool quantised, const Dispatch& d, int workers) {
  const LinkModel link{.alpha = d.latency_seconds, .beta = d.seconds_per_byte};
  const double n = static_cast<double>(elements), k = static_cast<double>(elements_to_send(elements, d.density));
  const double sparse = d.residual_seconds * n + link.seconds(allgatherv_cost(workers, k * (quantised ? 4 : 8)));
  return sparse < link.beta * ring_allreduce_cost(workers, 4 * n).bytes;
}

/// The rank of an approximation whose two matrices have less than half of the parameter's numbers; else 0. Two
/// exchanges and three products are to save more than they cost. PyTorch's hook has the same rule and factor.
int rank_of(const ParameterInfo& p, int rank) {
  const auto [n, m] = matrix_size(p.shape);
  const std::int64_t r = std::min({n, m, static_cast<std::int64_t>(rank)});
  return 2 * r * (n + m) < p.elements ? static_cast<int>(r) : 0;
}

}  // namespace

std::string to_string(const Choice& choice) {
  if (choice.all()) return "all";
  if (choice.rank > 0) return concat("rank ", choice.rank);
  return concat(choice.selector, choice.quantised ? ", signs" : "");
}

Choice choice_of(const ParameterInfo& p, bool recurrent, const Dispatch& d, int workers) {
  const bool quantised = d.quantised && !p.output;
  if (d.kind == Dispatch::Kind::dense || p.elements == 0) return {};
  if (d.kind == Dispatch::Kind::automatic)
    return sparse_is_faster(p.elements, quantised, d, workers) ? Choice{"exact", quantised} : Choice{};
  if (d.kind == Dispatch::Kind::low_rank) return {.rank = rank_of(p, d.rank)};
  if (p.elements * 4 < d.dense_below) return {};
  if (d.kind == Dispatch::Kind::fixed) return {d.selector, quantised};
  const bool sampled = recurrent && (p.role == Role::recurrent || p.role == Role::embedding || p.output);
  return {!sampled ? "trimmed" : quantised ? "search" : "sampled", quantised};
}

}  // namespace laconic::dist
