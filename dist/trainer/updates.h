#pragma once
#include <utility>
#include <vector>

#include "core/base/trace.h"
#include "dist/update.h"
#include "optim/optimizer.h"

namespace laconic {

/// A worker's updates by its optimiser, from gradients that it limits before.
class Updates {
 public:
  /// optimizer : null where the servers update.   clip : of the joined gradient, unless the method limits it
  /// Both references outlive this.
  Updates(const ParameterArena& arena, Optimizer* optimizer, const Clip& clip)
      : arena_(arena), optimizer_(optimizer), clip_(clip) {}

  /// All gradients of a step must have arrived before its first update, which ends the overlap with the next forward.
  bool waits_for_all() const { return clip_.kind == Clip::Kind::norm; }

  /// The gradient has arrived: updates the parameter now, or in apply_all().
  void apply(Parameter& p, Rows rows, const dist::StepContext& context) {
    if (waits_for_all()) {
      arrived_.emplace_back(&p, rows);
      context_ = context;
      return;
    }
    const Trace::Span span(p.info.name, "update");
    if (clip_.kind == Clip::Kind::value) {
      const bool all = rows.count == p.all_rows().count;
      clip_value(all ? p.grad() : p.grad().rows(rows.first, rows.count), clip_.limit / context.gradient_scale);
    }
    optimizer_->update(p, rows, context.lr, context.gradient_scale);
  }

  /// All gradients have arrived.
  void apply_all() {
    const double mean = context_.gradient_scale;  // the arena holds sums
    const double scale = mean * clip_scale(mean * mean * gradient_sum_of_squares(arena_), clip_.limit);
    optimizer_->update(std::exchange(arrived_, {}), context_.lr, scale);
  }

 private:
  const ParameterArena& arena_;
  Optimizer* const optimizer_;
  const Clip clip_;
  std::vector<std::pair<Parameter*, Rows>> arrived_;  // sums that wait for their common norm
  dist::StepContext context_;
};

}  // namespace laconic
