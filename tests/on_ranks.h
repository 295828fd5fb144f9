#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "dist/world.h"
#include "tests/values_of.h"

namespace laconic::dist {

/// Ends the test program with a sentence if it lives longer than `seconds`: nothing with ranks may hang a suite.
class Watchdog {
 public:
  explicit Watchdog(double seconds)
      : thread_([this, seconds] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done_; })) return;
          const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
          std::fprintf(stderr, "watchdog: %s.%s still runs after %.0f s\n", test ? test->test_suite_name() : "?",
                       test ? test->name() : "?", seconds);
          std::_Exit(99);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// Numbers of ranks: alone, all small ones, and one more than a power of two that is not small.
inline constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17};

/// Runs f on N ranks that are threads of this process; fails the test program if that takes more than ten minutes.
inline void on_ranks(int N, const std::function<void(Worker&)>& f, double timeout_seconds = 60) {
  Watchdog watchdog(600);
  run_workers({.workers = N, .timeout_seconds = timeout_seconds}, f);
}

}  // namespace laconic::dist
