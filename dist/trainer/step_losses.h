#pragma once
#include <cstring>
#include <utility>
#include <vector>

#include "core/raw.h"
#include "core/stream.h"
#include "core/tensor.h"

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

}  // namespace laconic
