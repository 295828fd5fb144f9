#pragma once
#include <string>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/trainer/trainer.h"

namespace laconic {

/// Draws every operation's backward and every layer's forward into the trace while it lives.
class Trainer::Spans final : BackwardWatch {
 public:
  /// `place` says meanwhile where it is.
  Spans(Module& model, Spans*& place) : model_(model), place_(place) {
    place_ = this;
    draw(true);
  }
  ~Spans() {
    place_ = nullptr;
    draw(false);
  }
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
  Spans*& place_;
  std::string name_;
  Clock::time_point begin_, last_;
  ForwardWatch layers_ = [this](const std::string& layer, const Tensor&) {
    const Clock::time_point now = Clock::now();
    if (Trace::Row* row = Trace::current()) row->add(layer, "forward", last_, now);
    last_ = now;
  };
};

}  // namespace laconic
