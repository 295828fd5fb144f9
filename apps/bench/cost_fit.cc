#include "apps/bench/cost_fit.h"

#include <algorithm>
#include <array>

namespace laconic {

LinkModel fit_link(const std::vector<Timed>& measured) {
  using Costs = std::array<double, 3>;
  // Every measurement is divided by its seconds, so that errors are relative. Columns are scaled too: bytes in millions
  // and messages in ones meet on the same footing.
  std::vector<Costs> rows;
  Costs scale{}, x{};
  for (const auto& [cost, seconds] : measured) {
    const Costs& row =
        rows.emplace_back(Costs{cost.messages / seconds, cost.bytes / seconds, cost.bytes_added / seconds});
    for (std::size_t i = 0; i < 3; ++i) scale[i] = std::max(scale[i], row[i]);
  }
  for (Costs& row : rows)
    for (std::size_t i = 0; i < 3; ++i) row[i] /= scale[i] > 0 ? scale[i] : 1;
  // Least squares with none below 0, one of the three at a time (coordinate descent); some hundred rounds are enough.
  for (int round = 0; round < 10'000; ++round)
    for (std::size_t i = 0; i < 3; ++i) {
      double own = 0, rest = 0;  // of the normal equation: own x[i] = rest
      for (const Costs& row : rows) {
        own += row[i] * row[i];
        rest += row[i] * (1 + row[i] * x[i] - row[0] * x[0] - row[1] * x[1] - row[2] * x[2]);
      }
      if (own > 0) x[i] = std::max(0.0, rest / own);
    }
  for (std::size_t i = 0; i < 3; ++i) x[i] /= scale[i] > 0 ? scale[i] : 1;
  return {x[0], x[1], x[2]};
}

}  // namespace laconic
