#pragma once
#include <cstddef>
#include <cstdint>

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

  /// The caller awaits it at once, and has a place then. Larger priorities come first, equal ones in the order of
  /// asking.
  Waiting::Wait take(int priority) {
    const bool free = free_ > 0;
    if (free) --free_;
    return waiting_.unless(free, priority);
  }
  /// Gives the place of a bucket that has come to the next one.
  void give_back() {
    if (!waiting_.wake_one()) ++free_;
  }

 private:
  std::size_t free_;
  Waiting waiting_;
};

/// Asks for the turn of a bucket, and grants it: eight bytes each way, little-endian.
struct Turn {
  std::uint32_t step = 0;  ///< the round's step
  float scale = 0;         ///< scale of the worker's part; in the answer the largest of all. 0: the codec shares none
};
static_assert(sizeof(Turn) == 8);

}  // namespace laconic::dist
