#pragma once
#include <cstddef>
#include <string>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {

/// A piece of a strategy's own work, while it lives: drawn in traces, and added to `seconds`.
class Doing {
 public:
  /// name : of the parameter;   what : "gather", "select", "update"
  Doing(const std::string& name, const char* what, double& seconds) : span_(name, what), seconds_(seconds) {}
  ~Doing() { seconds_ += seconds_since(begin_); }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  const Trace::Span span_;
  double& seconds_;
  const Clock::time_point begin_ = Clock::now();
};

/// A residual takes up elements of a gradient, or elements are chosen from it. A simulation makes that take time, where
/// the memory is a ghost's.
inline void says_gathering(Device device, std::size_t elements) {
  GhostWork::tell(device, Work::gathering, elements);
}
inline void says_selecting(Device device, std::size_t elements) {
  GhostWork::tell(device, Work::selecting, elements);
}

}  // namespace laconic::dist
