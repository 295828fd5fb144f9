#pragma once
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd.h"
#include "core/base/clock.h"
#include "core/base/trace.h"
#include "core/memory.h"
#include "core/raw.h"
#include "core/stream.h"
#include "layers/module.h"

namespace laconic {

/// The losses of a step's micro-batches on a CUDA device, read when the whole step has been asked for: by then forward
/// has ended there or soon will, while backward is still to do, so that the device never waits for the host, and the
/// host is never more than a step ahead.
class StepLosses {
 public:
  explicit StepLosses(Device device) : device_(device) {}
  ~StepLosses() {
    try {
      last_.synchronize();
    } catch (const Error&) {  // the device is broken, and writes no more
    }
  }
  StepLosses(const StepLosses&) = delete;
  StepLosses& operator=(const StepLosses&) = delete;

  /// mean : [1], the loss over `samples`. Returns at once.
  void add(const Tensor& mean, std::int64_t samples) {
    const Tensor loss = raw::cast(mean, DType::f32);
    under_way_.emplace_back(Pinned(sizeof(float), device_), samples);
    copy_bytes_later(under_way_.back().first.data(), kCpu, loss.raw_data(), device_, sizeof(float));
    last_ = Event::now(device_);
  }

  /// Calls f(loss, samples) for those added since the last call, in their order. Waits for them.
  /// throws DataError  what the step's kernels have found so far
  template <class F>
  void read(F f) {
    last_.synchronize();
    throw_findings(device_);
    for (const auto& [loss, samples] : std::exchange(under_way_, {})) {
      float value;
      std::memcpy(&value, loss.data(), sizeof value);
      f(value, samples);
    }
  }

 private:
  Device device_;
  std::vector<std::pair<Pinned, std::int64_t>> under_way_;
  Event last_;
};

/// What training steps take of a device's memory beyond what is held between them, as the allocator hands it out
/// (blocks are up to half larger than what is asked for). It counts all workers of a process together; one of them
/// asks.
class StepMemory {
 public:
  explicit StepMemory(Device device) : device_(device) {}
  void begin() { reset_peak(device_); }  ///< before the first step, and where steps go on after something else
  void after_step() { peak_ = std::max(peak_, memory_stats(device_).peak_bytes); }
  /// No worker is in a step: parameters, gradients, the optimiser's state and batches prepared ahead are held, and
  /// weights in their kernels' order.
  void between_steps() { held_ = std::min(held_, memory_stats(device_).in_use_bytes); }

  std::size_t peak_bytes() const { return peak_; }  ///< in steps, all in all; 0: none seen, or a sanitizer allocates
  /// Activations, their gradients, and kernels' work space; of all steps the most.
  std::size_t activation_bytes() const { return held_ < peak_ ? peak_ - held_ : 0; }

 private:
  Device device_;
  std::size_t peak_ = 0, held_ = std::numeric_limits<std::size_t>::max();
};

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
