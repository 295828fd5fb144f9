#pragma once
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "dist/engine/operation.h"

namespace laconic::dist {

/// All that the compute thread and the communication thread of an engine tell each other, under one lock: operations,
/// their ends, the failure, and what ends everything.
class OperationQueue {
 public:
  /// Before anything else. The transport outlives all calls but stop().
  void connect(Transport& transport) { transport_ = &transport; }

  // ---- the compute thread's ----

  /// Throws the failure, if there is one; as submit() does.
  void require_running() const {
    std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  void submit(std::shared_ptr<Running> running) {
    if (!borrowed_) running->ready = Event::now(running->operation.device);  // else the order of work is this thread's
    {
      std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
      submitted_.push_back(std::move(running));
      if (open_++ == 0) busy_since_ = Clock::now();
      if (borrowed_) return;  // the thread that has borrowed sees it itself
      if (idle_) return asked_.notify_all();
    }
    transport_->wake();
  }

  /// Blocks until the operation has ended, or all have that were submitted (null); whether it had to. Throws the
  /// failure if that came first.
  bool wait(const Running* one, bool exposed, bool patiently) {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return one ? one->done : open_ == 0 && !failure_; };
    const bool blocks = !ended() && !failure_;
    if (blocks) {
      const Clock::time_point begin = Clock::now();
      blocked_ = {begin, patiently};
      awaited_ = one;
      changed_.wait(lock, [&] { return ended() || failure_; });  // the communication thread watches the time-out
      blocked_.reset();
      awaited_ = nullptr;
      if (exposed) exposed_seconds_ += seconds_since(begin);
    }
    if (!ended()) std::rethrow_exception(failure_);
    if (one == nullptr) ended_.wait();
    if (one != nullptr && one->error == untold_) untold_ = nullptr;
    return blocks;
  }

  /// If the communication thread sleeps with nothing under way, what is its own belongs to this thread until
  /// give_back().
  bool borrow(bool patiently) {
    std::lock_guard lock(mutex_);
    borrowed_ = idle_ && open_ == 0 && !failure_ && !stop_ && !ending_;
    if (borrowed_) blocked_ = {Clock::now(), patiently};
    return borrowed_;
  }
  void give_back() {
    std::lock_guard lock(mutex_);
    blocked_.reset();
    borrowed_ = false;
    if (failure_ || ending_) asked_.notify_all();
  }

  /// Returns when nothing is under way any more, neither here nor on the device; if something was it has failed.
  void halt() noexcept {
    std::unique_lock lock(mutex_);
    if (failure_) return;
    if (open_ == 0) {  // what has ended may still be under way on the device
      const Event ended = ended_;
      lock.unlock();
      try {
        ended.wait();
      } catch (const Error&) {
        // The device is broken: it does nothing any more.
      }
      return;
    }
    // An abort's sentence, if there is one, is what ended this.
    if (!ending_) ending_ = std::make_exception_ptr(CommError("engine: halted while operations were under way"));
    call();
    changed_.wait(lock, [&] { return failure_ != nullptr; });
  }

  /// The communication thread comes to its end.
  void stop() {
    std::lock_guard lock(mutex_);  // the thread destroys the transport once it has seen stop_, not before
    stop_ = true;
    call();
  }

  // ---- any thread's ----

  /// Returns when the communication thread has told all ranks, or after 10 s.
  void abort(const std::string& reason, int exit_code) {
    std::unique_lock lock(mutex_);
    if (!abort_) {
      abort_ = {reason, exit_code};
      ending_ = std::make_exception_ptr(CommError(reason));
    }
    call();
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return abort_done_; });
  }
  /// Something has been under way, the compute thread was blocked, for so long.
  std::pair<double, double> busy_and_exposed_seconds() const {
    std::lock_guard lock(mutex_);
    return {comm_seconds_ + (open_ > 0 ? seconds_since(busy_since_) : 0), exposed_seconds_};
  }

  // ---- the communication thread's, or the compute thread's while it has borrowed ----

  /// Sleeps while nothing is under way, at most so long unless it is borrowed. False if the engine has failed.
  bool sleep_while_idle(double at_most_seconds) {
    std::unique_lock lock(mutex_);
    if (open_ == 0) {
      idle_ = true;
      const auto asked = [&] { return !borrowed_ && (stop_ || ending_ || failure_ || !submitted_.empty()); };
      const std::chrono::duration<double> beat(at_most_seconds);
      while (!asked_.wait_for(lock, beat, asked) && borrowed_) {
      }
      idle_ = false;
    }
    return failure_ == nullptr;
  }
  /// What was submitted since; nothing if the engine is to stop. Throws if it is to end with an error.
  std::optional<RunningList> take() {
    std::lock_guard lock(mutex_);
    if (stop_) return std::nullopt;
    if (ending_) std::rethrow_exception(ending_);
    return std::exchange(submitted_, {});
  }
  /// Throws CommError if take() would not go on.
  void require_going_on(const std::string& waits_for) const {
    std::lock_guard lock(mutex_);
    if (abort_) throw CommError(abort_->reason);
    require<CommError>(!stop_ && !ending_ && !failure_, "engine: halted while it waited for ", waits_for);
  }
  bool all_under_way() const {
    std::lock_guard lock(mutex_);
    return open_ > 0 && submitted_.empty();
  }
  /// Since when the compute thread is blocked, if it is, and whether it does not mind while all ranks live.
  struct Blocked {
    Clock::time_point since;
    bool patient = false;
  };
  std::optional<Blocked> blocked() const {
    std::lock_guard lock(mutex_);
    return blocked_;
  }
  void end(const RunningList& all) {
    bool awaited = false;
    {
      std::lock_guard lock(mutex_);
      for (const auto& running : all) {
        if (running->operation.device.kind == Device::Kind::cuda) ended_ = running->ended;
        running->done = true;
        if (!untold_) untold_ = running->error;
      }
      open_ -= all.size();
      if (open_ == 0) comm_seconds_ += seconds_since(busy_since_);
      awaited = blocked_ && (awaited_ ? awaited_->done : open_ == 0);
    }
    if (awaited) changed_.notify_all();
  }
  /// Nothing goes on from here. The first error stays: an operation's that nobody has waited for is why others wait.
  void fail(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    for (const auto& running : submitted_) running->release();
    submitted_.clear();
    open_ = 0;
    if (!failure_ && error) failure_ = untold_ ? untold_ : error;
    if (!failure_) failure_ = std::make_exception_ptr(CommError("engine: stopped"));
    changed_.notify_all();
  }
  /// After a failure only an abort is still of interest. Returns when the engine is to stop.
  void serve_aborts() {
    std::unique_lock lock(mutex_);
    while (true) {
      asked_.wait(lock, [&] { return stop_ || (abort_ && !abort_done_); });
      if (!abort_ || abort_done_) return;
      const Abort abort = *abort_;
      lock.unlock();
      transport_->abort(abort.reason, abort.exit_code);
      lock.lock();
      abort_done_ = true;
      changed_.notify_all();
    }
  }

 private:
  struct Abort {
    std::string reason;
    int exit_code;
  };
  /// Wherever the communication thread sleeps it looks again.
  void call() {
    asked_.notify_all();
    transport_->wake();
  }

  Transport* transport_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // operations that ended, failure: the compute thread looks again
  std::condition_variable asked_;    // requests: the communication thread looks again, if it sleeps here
  RunningList submitted_;
  std::size_t open_ = 0;  // submitted and not ended
  std::exception_ptr failure_;
  std::exception_ptr untold_;  // error of the first failed operation that nobody has waited for
  bool idle_ = false;      // the communication thread sleeps, with nothing under way
  bool borrowed_ = false;  // the compute thread has borrowed; it alone changes this
  bool stop_ = false;
  std::exception_ptr ending_;  // error of all that is under way
  std::optional<Abort> abort_;
  bool abort_done_ = false;
  std::optional<Blocked> blocked_;
  const Running* awaited_ = nullptr;  // operation that the compute thread waits for; null: all of them
  double exposed_seconds_ = 0, comm_seconds_ = 0;
  Clock::time_point busy_since_;
  Event ended_;  // end of the last operation on a CUDA device
};

}  // namespace laconic::dist
