#pragma once
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/parameter.h"
#include "core/raw.h"

namespace laconic {

/// Sees whether a worker's own gradients are finite, as backward leaves them: those of parameters of at most kMost
/// elements, since what is no number in an activation's gradient comes to every bias below it. Stands between the arena
/// and its listener, in host memory.
///
/// cost   some microseconds for each of these parameters, whose gradients are in the cache
class GradientWatch final : public ParameterListener {
 public:
  static constexpr std::int64_t kMost = 16 << 10;

  /// stops : a gradient that is not finite ends the training, because the sum over workers would spoil the weights
  GradientWatch(ParameterListener& next, int rank, bool stops) : next_(next), rank_(rank), stops_(stops) {}

  void begin_step(std::int64_t step) { step_ = step; }
  static bool looks_at(const Parameter& p) { return p.info.elements <= kMost; }
  bool found() const { return !found_.empty(); }  ///< a gradient that is not finite
  /// After backward.   throws Error: names parameter, rank and step
  void require_finite() const {
    require<Error>(!stops_ || !found(), "training: the gradient of ", found_, " is not finite on rank ", rank_, " in step ",
                   step_, ", before any exchange. Lower `lr`, or clip gradients (`clip` norm:5).");
  }

  void gradient_ready(Parameter& p, Rows rows) override {
    if (!found() && looks_at(p)) {
      const auto [first, count] = p.info.part(rows);
      if (!raw::all_finite(p.grad().range(first, count))) found_ = p.info.name;
    }
    next_.gradient_ready(p, rows);
  }
  void before_forward(Parameter& p, Rows rows) override { next_.before_forward(p, rows); }

 private:
  ParameterListener& next_;
  const int rank_;
  const bool stops_;
  std::int64_t step_ = 0;
  std::string found_;  // the first such parameter
};

}  // namespace laconic
