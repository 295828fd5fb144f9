#include "dist/engine/busy.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace laconic::dist {

std::shared_ptr<BusyThread> BusyThread::here() {
  thread_local const auto mine = std::make_shared<BusyThread>();
  return mine;
}

std::optional<BusyThread::Now> BusyThread::now() const {
  std::lock_guard lock(mutex_);
  if (innermost_ == nullptr) return std::nullopt;
  const Busy& busy = *innermost_;
  const std::string what = busy.what_ ? busy.what_() : "";
  return Now{concat(busy.does_, " (", what, what.empty() ? "" : ", ", std::lround(seconds_since(busy.since_)), " s)"),
             busy.since_, busy.with_ == Busy::With::files};
}

Busy::Busy(With with, const char* does, std::function<std::string()> what)
    : with_(with), does_(does), what_(std::move(what)) {
  std::lock_guard lock(thread_->mutex_);
  outer_ = std::exchange(thread_->innermost_, this);
}

Busy::~Busy() {
  std::lock_guard lock(thread_->mutex_);
  thread_->innermost_ = outer_;
}

}  // namespace laconic::dist
