#pragma once
#include <string>

#include "core/autograd.h"
#include "core/base/clock.h"
#include "core/base/trace.h"
#include "layers/module.h"

namespace laconic {

/// Draws every operation's backward and every layer's forward into the trace while it lives.
class TraceSpans final : BackwardWatch {
 public:
  explicit TraceSpans(Module& model) : model_(model) { draw(true); }
  ~TraceSpans() { draw(false); }
  TraceSpans(const TraceSpans&) = delete;
  TraceSpans& operator=(const TraceSpans&) = delete;
  /// Begins to draw, or stops. While it does not draw, others may watch the model and backward.
  void draw(bool yes) {
    set_backward_watch(yes ? this : nullptr);
    model_.set_watch(yes ? &layers_ : nullptr);
  }
  /// A forward begins: a layer's takes from the one before it, or from now on.
  void begin_forward() { last_ = Clock::now(); }

 private:
  void before(const char* operation, const std::string& layer) override {
    name_ = layer.empty() ? operation : layer;
    begin_ = Clock::now();
  }
  void after() override {
    if (Trace::Row* row = Trace::current()) row->add(name_, "backward", begin_, Clock::now());
  }

  Module& model_;
  std::string name_;
  Clock::time_point begin_, last_;
  ForwardWatch layers_ = [this](const std::string& layer, const Tensor&) {
    const Clock::time_point now = Clock::now();
    if (Trace::Row* row = Trace::current()) row->add(layer, "forward", last_, now);
    last_ = now;
  };
};

}  // namespace laconic
