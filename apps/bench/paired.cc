#include "apps/bench/paired.h"

#include <algorithm>

#include "core/clock.h"

namespace laconic {
namespace {

double timed(const Contender& c) {
  if (c.before) c.before();
  if (c.by_own_clock) return c.by_own_clock();
  const auto begin = Clock::now();
  c.run();
  return seconds_since(begin);
}

}  // namespace

void run_in_turns(std::vector<Contender>& all, int rounds, double least_seconds) {
  constexpr double kShort = 0.02;
  std::vector<double> once;
  for (Contender& c : all) once.push_back(timed(c));
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contender& c = all[i];
      if (round >= c.most_rounds) continue;
      if (once[i] < kShort) timed(c);
      double sum = 0;
      int runs = 0;
      for (; runs == 0 || sum < least_seconds; ++runs) sum += timed(c);
      c.seconds.push_back(sum / runs);
    }
}

Median ratio(const Contender& a, const Contender& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.seconds.size(), b.seconds.size()); ++i)
    ratios.push_back(a.seconds[i] / b.seconds[i]);
  return median(ratios);
}

}  // namespace laconic
