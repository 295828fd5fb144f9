#pragma once
#include <cstdint>
#include <vector>

#include "core/parameter.h"
#include "dist/trainer/report.h"

namespace laconic {

/// Whether the gradients of a step are looked at: 1, 10, 100, 1000, …
bool looks_at_gradients(std::int64_t step);

/// Counts how large the elements of rank 0's own gradients are, as backward leaves them, in steps 1, 10, 100, 1000, …
/// Stands between the arena and its listener.
///
/// cost   some 2 ns an element in these steps; a gradient on a GPU is copied to the host
class GradientCounter final : public ParameterListener {
 public:
  explicit GradientCounter(ParameterListener& next) : next_(next) {}

  void begin_step(std::int64_t step);
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override { next_.before_forward(parameter, rows); }
  /// What was counted since begin_step(), in the order of backward.
  std::vector<GradientCounts> take() { return std::move(counts_); }

 private:
  ParameterListener& next_;
  bool counts_this_step_ = false;
  std::vector<GradientCounts> counts_;
};

}  // namespace laconic
