#pragma once
#include <coroutine>
#include <exception>
#include <utility>

#include "core/dispatch.h"
#include "core/stream.h"

namespace laconic {

/// `co_await DeviceComes{device};`   in Steps: goes on when the device has done what was asked of it so far. Then it is
/// the selected one again (core/cuda/device.h), whatever the thread has done meanwhile.
struct DeviceComes {
  Device device{};
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const {
    on_device(
        device, [] {}, [] {});
  }
};

/// Work whose next part depends on what a device finds. It is a coroutine that asks the device for something, suspends
/// by `co_await DeviceComes{device}`, and reads what has come. Whoever runs it lets the device come there, by waiting
/// (run()), or by doing other things between two calls of go_on().
///
///     Steps count(...) { ask(...); co_await DeviceComes{device}; use(what_came); }
///     Steps steps = count(...);
///     while (steps.go_on()) co_await communicator.device_comes(device);     or: steps.run(device);
///
/// Work that need not wait has ended after the first go_on(). Steps may await others, which they keep in a variable.
/// References that a coroutine takes must outlive it. Destroying it ends it where it stands; the device still does all
/// that it was asked for. Used by one thread. Cost: an allocation.
class [[nodiscard]] Steps {
 public:
  struct promise_type {
    Steps* inner = nullptr;  // the steps that it awaits
    std::exception_ptr error;

    Steps get_return_object() { return Steps(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }
  };

  Steps() = default;  ///< ended already
  Steps(Steps&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Steps& operator=(Steps&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Steps() {
    if (coroutine_) coroutine_.destroy();
  }

  /// Runs to where it next needs what the device does, or to its end: false. throws what ended it
  bool go_on() {
    if (advance()) return true;
    throw_error();
    return false;
  }
  /// Runs to its end, and waits for the device wherever it has to.
  void run(Device device) {
    while (go_on()) synchronize(device);
  }

  // For `co_await steps`.
  bool await_ready() { return !advance(); }
  void await_suspend(std::coroutine_handle<promise_type> outer) { outer.promise().inner = this; }
  void await_resume() { throw_error(); }

 private:
  explicit Steps(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  /// Resumes the innermost. False: it has ended.
  bool advance() {
    if (!coroutine_ || coroutine_.done()) return false;
    Steps*& inner = coroutine_.promise().inner;
    if (inner != nullptr && inner->advance()) return true;
    inner = nullptr;
    coroutine_.resume();
    return !coroutine_.done();
  }
  void throw_error() {
    if (coroutine_ && coroutine_.promise().error) std::rethrow_exception(std::exchange(coroutine_.promise().error, {}));
  }

  std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace laconic
