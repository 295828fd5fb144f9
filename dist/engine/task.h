#pragma once
#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace laconic::dist {

/// The run queue of one thread: coroutines that may go on, first come first served.
/// Nothing ever resumes a coroutine from inside another one (no symmetric transfer): g++ 12 makes that a tail call only
/// from -O2 and never under the address sanitizer, and a loop of awaits that need not wait would grow the stack until
/// it overflows. A coroutine that is to go on is put here; run() resumes one after the other. About 13 ns a
/// step. Used by one thread only.
class Scheduler {
 public:
  void later(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  /// Resumes what is ready, and what becomes ready meanwhile, until nothing is.
  void run() {
    while (!ready_.empty()) {
      const std::coroutine_handle<> next = ready_.front();
      ready_.pop_front();
      next.resume();
    }
  }
  void clear() { ready_.clear(); }  ///< before frames are destroyed that may stand in the queue

 private:
  std::deque<std::coroutine_handle<>> ready_;
};

template <class T>
class Task;

namespace detail {

struct PromiseBase {
  Scheduler* scheduler = nullptr;
  std::coroutine_handle<> waiting;  // who awaits this task, if anyone
  std::exception_ptr error;

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      if (self.promise().waiting) self.promise().scheduler->later(self.promise().waiting);
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() {
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const {
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace detail

/// A coroutine that starts when it is awaited (or started) and yields a T. `co_await task` suspends until it has
/// returned; what it threw comes out of the await. Tasks that were started before run beside each other until then. The
/// Task owns the frame: destroying it destroys what the coroutine holds, so cancel outstanding transfers first
/// (Endpoint::cancel).
/// Everything that a coroutine takes by reference must outlive it: pass named variables, never temporaries.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task() = default;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() { reset(); }

  bool done() const { return handle_ && handle_.done(); }
  /// Puts the coroutine into the run queue, for a task that nobody awaits, or only later. Once.
  void start(Scheduler& scheduler) {
    handle_.promise().scheduler = &scheduler;
    scheduler.later(handle_);
  }
  /// The value of a task that is done; throws what it threw. Once.
  T result() { return handle_.promise().take(); }

  struct Awaiter {  // trivially destructible: see Scheduler on g++ 12
    std::coroutine_handle<promise_type> child;
    bool await_ready() const noexcept { return child.done(); }
    template <class Parent>
    void await_suspend(std::coroutine_handle<Parent> parent) const {
      child.promise().waiting = parent;
      if (child.promise().scheduler != nullptr) return;  // it was started
      child.promise().scheduler = parent.promise().scheduler;
      child.promise().scheduler->later(child);
    }
    T await_resume() const { return child.promise().take(); }
  };
  Awaiter operator co_await() const noexcept { return {handle_}; }

 private:
  void reset() {
    if (handle_) std::exchange(handle_, {}).destroy();
  }
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

/// `Scheduler& scheduler = co_await CurrentScheduler{};`   the run queue that this coroutine runs in.
struct CurrentScheduler {
  Scheduler* scheduler = nullptr;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    scheduler = coroutine.promise().scheduler;
    return false;
  }
  Scheduler& await_resume() const noexcept { return *scheduler; }
};

/// Coroutines of one thread that wait for something to happen there.
class Waiting {
 public:
  struct Wait {  // trivially destructible: see Scheduler on g++ 12
    Waiting* list;
    int priority;
    bool await_ready() const noexcept { return list == nullptr; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) const {
      list->all_.push_back({priority, coroutine, coroutine.promise().scheduler});
    }
    void await_resume() const noexcept {}
  };
  /// The caller awaits it at once: it goes on if `there`, else when it is woken.
  Wait unless(bool there, int priority = 0) { return {there ? nullptr : this, priority}; }
  /// Wakes the one of the largest priority, of equal ones the first. Returns false if none waits.
  bool wake_one() {
    const auto next = std::ranges::max_element(all_, {}, &One::priority);
    if (next == all_.end()) return false;
    next->scheduler->later(next->coroutine);
    all_.erase(next);
    return true;
  }
  void wake_all() {
    for (const One& one : std::exchange(all_, {})) one.scheduler->later(one.coroutine);
  }

 private:
  struct One {
    int priority;
    std::coroutine_handle<> coroutine;
    Scheduler* scheduler;
  };
  std::vector<One> all_;
};

}  // namespace laconic::dist
