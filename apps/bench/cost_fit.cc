#include "apps/bench/cost_fit.h"

#include <array>
#include <cmath>
#include <limits>

namespace laconic {
namespace {

using Costs = std::array<double, 3>;

/// Least squares over the columns in `use` (a bit each) by the normal equations. False if they do not determine it.
bool solve(const std::vector<Costs>& rows, unsigned use, Costs& x) {
  std::array<std::array<double, 4>, 3> m{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Costs& r : rows)
      for (std::size_t j = 0; j < 3; ++j) m[i][j] += r[i] * r[j];
    for (const Costs& r : rows) m[i][3] += r[i];  // every measurement is 1: errors are relative
    if (use >> i & 1) continue;
    m[i] = {};
    m[i][i] = 1;
  }
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      if (i != j && !(use >> j & 1)) m[i][j] = 0;
  for (std::size_t i = 0; i < 3; ++i) {  // Gauss; the matrix is positive definite, so no pivoting
    if (!(m[i][i] > 0)) return false;
    for (std::size_t k = 0; k < 3; ++k) {
      if (k == i) continue;
      const double factor = m[k][i] / m[i][i];
      for (std::size_t j = i; j < 4; ++j) m[k][j] -= factor * m[i][j];
    }
  }
  for (std::size_t i = 0; i < 3; ++i) x[i] = m[i][3] / m[i][i];
  return true;
}

}  // namespace

LinkModel fit_link(const std::vector<Timed>& measured) {
  // Columns are scaled, so that bytes in millions and messages in ones meet on the same footing.
  Costs scale{};
  std::vector<Costs> rows;
  for (const Timed& t : measured) {
    const Costs r{t.cost.messages / t.seconds, t.cost.bytes / t.seconds, t.cost.bytes_added / t.seconds};
    for (std::size_t i = 0; i < 3; ++i) scale[i] = std::max(scale[i], r[i]);
    rows.push_back(r);
  }
  for (Costs& r : rows)
    for (std::size_t i = 0; i < 3; ++i) r[i] /= scale[i] > 0 ? scale[i] : 1;
  Costs best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned use = 1; use < 8; ++use) {  // the best fit with none below 0 leaves some out
    Costs x;
    if (!solve(rows, use, x) || x[0] < 0 || x[1] < 0 || x[2] < 0) continue;
    double error = 0;
    for (const Costs& r : rows) error += std::pow(r[0] * x[0] + r[1] * x[1] + r[2] * x[2] - 1, 2);
    if (error < least) least = error, best = x;
  }
  for (std::size_t i = 0; i < 3; ++i) best[i] = scale[i] > 0 ? best[i] / scale[i] : 0;
  return {best[0], best[1], best[2]};
}

}  // namespace laconic
