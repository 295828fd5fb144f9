#include "dist/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace laconic::dist {
namespace {

// Momentum, residual and filter read and write about five arrays: measured 0.3 to 1 ns a value on one core.
constexpr double kSelectSecondsPerElement = 1e-9;

}  // namespace

std::string to_string(const Choice& choice) {
  if (choice.selector.empty()) return "all";
  return concat(choice.selector, choice.quantised ? ", signs" : "");
}

Choice choice_of(const ParameterInfo& p, bool recurrent, const Dispatch& d, int workers) {
  const bool quantised = d.quantised && !p.output;
  if (d.kind == Dispatch::Kind::dense || p.elements == 0) return {};
  if (d.kind == Dispatch::Kind::automatic) {
    if (sparse_seconds(p.elements, quantised, d, workers) >= dense_seconds(p.elements, d, workers)) return {};
    return {"exact", quantised};
  }
  if (p.elements * 4 < d.dense_below) return {};
  if (d.kind == Dispatch::Kind::fixed) return {d.selector, quantised};
  const bool sampled = recurrent && (p.role == Role::recurrent || p.role == Role::embedding || p.output);
  return {!sampled ? "trimmed" : quantised ? "search" : "sampled", quantised};
}

std::int64_t elements_to_send(std::int64_t n, double density) {
  const double k = std::ceil(density * static_cast<double>(n));
  return std::min(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(k)));
}

double sparse_seconds(std::int64_t n, bool quantised, const Dispatch& d, int workers) {
  const double steps = std::bit_width(static_cast<unsigned>(workers - 1));
  const auto k = static_cast<double>(elements_to_send(n, d.density));
  return kSelectSecondsPerElement * static_cast<double>(n) + steps * d.latency_seconds +
         (workers - 1) * k * (quantised ? 4 : 8) * d.seconds_per_byte;
}

double dense_seconds(std::int64_t n, const Dispatch& d, int workers) {
  return 2.0 * (workers - 1) / workers * 4 * static_cast<double>(n) * d.seconds_per_byte;
}

}  // namespace laconic::dist
