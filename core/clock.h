#pragma once
#include <chrono>

namespace laconic {

/// What durations are measured by: it never goes back.
using Clock = std::chrono::steady_clock;

/// From `begin` until now.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace laconic
