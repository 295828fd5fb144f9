#include "dist/plan/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace laconic::dist {
namespace {

/// Whether it takes less time to select, exchange and add up k of n elements than to reduce all n in a ring together
/// with neighbours, whose messages cost their latency anyway.
///   sparse   T_select + ceil(lg N) a + (N-1) w k b        w: 8 bytes for index and value, 4 for an index alone
///   dense    2 (N-1)/N 4 n b
/// source   RedSync 3 (cost model); its terms for adding up are small beside these and left out
bool sparse_is_faster(std::int64_t elements, bool quantised, const Dispatch& d, int workers) {
  const double n = static_cast<double>(elements), k = static_cast<double>(elements_to_send(elements, d.density)),
               steps = std::bit_width(static_cast<unsigned>(workers - 1));
  const double sparse = d.residual_seconds * n + steps * d.latency_seconds +
                        (workers - 1) * k * (quantised ? 4 : 8) * d.seconds_per_byte;
  return sparse < 2.0 * (workers - 1) / workers * 4 * n * d.seconds_per_byte;
}

/// The rank of an approximation whose two matrices have less than half of the parameter's numbers; else 0. Two
/// exchanges and three products are to save more than they cost. PyTorch's hook has the same rule and factor.
int rank_of(const ParameterInfo& p, int rank) {
  const auto [n, m] = matrix_size(p.shape);
  const std::int64_t r = std::min({n, m, static_cast<std::int64_t>(rank)});
  return 2 * r * (n + m) < p.elements ? static_cast<int>(r) : 0;
}

}  // namespace

MatrixSize matrix_size(const Shape& shape) {
  const std::int64_t rows = shape.rank() > 0 ? shape[0] : 1;
  return {rows, rows > 0 ? shape.elements() / rows : 0};
}

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

std::int64_t elements_to_send(std::int64_t n, double density) {
  const double k = std::ceil(density * static_cast<double>(n) * (1 - 1e-12));  // 0.07 * 100 is a little more than 7
  return std::min(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(k)));
}

}  // namespace laconic::dist
