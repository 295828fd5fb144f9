#pragma once
#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dist/engine/task.h"

namespace laconic::dist {

/// Decides which buckets the workers of a server may push: a few at a time, each as a whole, the most urgent of those
/// that all workers have ready. So a sum is complete as soon as the server's link allows, and its answer fills the way
/// down while others come up. If each worker chose by itself, the server would hold many parts of sums and could answer
/// none. The communication thread alone uses it. A failed operation keeps its place: others wait until the time-out,
/// which tells its error.
class Turns {
 public:
  explicit Turns(std::size_t places) : free_(places) {}

  struct Place {  // trivially destructible: see task.h
    Turns& turns;
    int priority;
    bool await_ready() const noexcept {
      if (turns.free_ == 0) return false;
      --turns.free_;
      return true;
    }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) const {
      turns.waiting_.push_back({priority, coroutine, coroutine.promise().scheduler});
    }
    void await_resume() const noexcept {}
  };
  /// The caller awaits it, which takes a place as soon as there is one. Larger priorities come first, equal ones in the
  /// order of asking.
  Place take(int priority) { return {*this, priority}; }
  /// Gives the place of a bucket that has come to the next one.
  void give_back() {
    const auto next = std::ranges::max_element(waiting_, {}, &Waiting::priority);
    if (next == waiting_.end()) {
      ++free_;
      return;
    }
    const Waiting woken = *next;
    waiting_.erase(next);
    woken.scheduler->later(woken.coroutine);
  }

 private:
  struct Waiting {
    int priority;
    std::coroutine_handle<> coroutine;
    Scheduler* scheduler;
  };
  std::size_t free_;
  std::vector<Waiting> waiting_;
};

/// Asks for the turn of a bucket, and grants it: eight bytes each way, little-endian.
struct Turn {
  std::uint32_t step = 0;  ///< of the round
  float scale = 0;         ///< of the worker's part; in the answer the largest of all. 0: the codec shares none
};
static_assert(sizeof(Turn) == 8);

}  // namespace laconic::dist
