#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "apps/statistics.h"

namespace laconic {

/// Something that is timed in turns with others.
struct Contender {
  std::string name;
  std::function<void()> run{};
  std::function<void()> before{};  ///< not timed; before each run
  int most_rounds = std::numeric_limits<int>::max();
  std::function<double()> by_own_clock{};  ///< instead of run: runs, and says how many seconds that took
  std::vector<double> seconds{};           ///< of one run, by round

  double milliseconds() const { return 1e3 * median(seconds).value; }
};

/// Runs all of them one after another, `rounds` times, after once untimed. Of what takes less than `least_seconds` a
/// round has several runs; of what takes less than 20 ms it begins with one that does not count, so that nobody pays
/// for what the one before has left in the caches.
void run_in_turns(std::vector<Contender>& all, int rounds, double least_seconds = 2e-4);

/// What a took divided by what b took, by rounds side by side.
Median ratio(const Contender& a, const Contender& b);

}  // namespace laconic
