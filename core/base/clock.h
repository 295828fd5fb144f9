#pragma once
#include <algorithm>
#include <chrono>
#include <ctime>

namespace laconic {

/// What durations are measured by: it never goes back.
using Clock = std::chrono::steady_clock;

/// From `begin` until now.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The least time of some runs, in seconds; at most 1.
template <class F>
double least_seconds(int runs, F run) {
  double least = 1;
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    run();
    least = std::min(least, seconds_since(begin));
  }
  return least;
}

/// CPU time of all threads of this process so far. About 0.3 us.
inline double process_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace laconic
