#pragma once
#include <chrono>
#include <ctime>

namespace laconic {

/// What durations are measured by: it never goes back.
using Clock = std::chrono::steady_clock;

/// From `begin` until now.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// CPU time of all threads of this process so far. About 0.3 us.
inline double process_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace laconic
