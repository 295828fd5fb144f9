#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dist/trainer/report.h"

namespace laconic {

/// Holds measured steps against what was expected of them. The first ten do not count; then the median of every fifty
/// is compared, or of fifty periods where messages travel once in one. If it is more than a fifth away, that contradicts
/// the expectation, and the watch ends.
class PlanWatch {
 public:
  /// expected_ms : of a step. Nothing: what the first fifty take
  /// period      : steps of which the mean counts as one
  explicit PlanWatch(std::optional<double> expected_ms, std::int64_t period = 1)
      : expected_ms_(expected_ms), period_(period) {}

  /// Returns a contradiction once, with the step that completes it.
  std::optional<Contradiction> add(double step_ms) {
    if (contradiction_ || ++seen_ <= kWarmUp) return std::nullopt;
    of_period_ms_ += step_ms;
    if ((seen_ - kWarmUp) % period_ != 0) return std::nullopt;
    steps_ms_.push_back(std::exchange(of_period_ms_, 0) / static_cast<double>(period_));
    if (steps_ms_.size() < kCompared) return std::nullopt;
    std::nth_element(steps_ms_.begin(), steps_ms_.begin() + kCompared / 2, steps_ms_.end());
    const double median = steps_ms_[kCompared / 2];
    steps_ms_.clear();
    if (!expected_ms_) expected_ms_ = median;
    if (std::abs(median - *expected_ms_) > kFar * *expected_ms_) contradiction_ = {median, *expected_ms_};
    return contradiction_;
  }
  /// What add() has returned.
  const std::optional<Contradiction>& contradiction() const { return contradiction_; }

 private:
  static constexpr std::int64_t kWarmUp = 10;
  static constexpr std::size_t kCompared = 50;
  static constexpr double kFar = 0.2;
  std::optional<double> expected_ms_;
  std::optional<Contradiction> contradiction_;
  std::int64_t period_;
  std::vector<double> steps_ms_;  // the mean of each period
  double of_period_ms_ = 0;
  std::int64_t seen_ = 0;
};

}  // namespace laconic
