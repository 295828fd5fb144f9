#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"

namespace laconic::dist {

/// Hands over what becomes ready in a step in the order of its numbers, whatever order it becomes ready in: NCCL pairs
/// what ranks ask for by order alone, and a rank whose share of a batch is empty has its gradients ready in another
/// order than those that ran a backward.
class InOrder {
 public:
  /// A step begins, in which each of these becomes ready once. numbers : ascending, the same on every rank
  void begin(std::vector<std::size_t> numbers) {
    due_ = std::move(numbers);
    next_ = 0;
    ready_.clear();
  }
  /// Calls `hand_over` now, or when all with smaller numbers have been. throws Error if it is not due in this step
  void ready(std::size_t number, std::function<void()> hand_over) {
    require<Error>(std::binary_search(due_.begin() + static_cast<std::ptrdiff_t>(next_), due_.end(), number),
                   "in order: number ", number, " is ready although it is not due any more in this step.");
    ready_[number] = std::move(hand_over);
    while (!ready_.empty() && ready_.begin()->first == due_[next_]) {
      const std::function<void()> now = std::move(ready_.begin()->second);
      ready_.erase(ready_.begin());
      ++next_;
      if (now) now();
    }
  }

 private:
  std::vector<std::size_t> due_;
  std::size_t next_ = 0;  // of due_: all before have been handed over
  std::map<std::size_t, std::function<void()>> ready_;
};

}  // namespace laconic::dist
