#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "dist/engine/engine.h"

namespace laconic::dist {

/// The length of one gradient whose parts several servers hold, for --clip norm:X. A round of a bucket waits here until
/// the sums of all buckets are there, on all servers; so no update overlaps with the last push, and nothing else waits.
///
///     rounds of buckets            on each server                        between servers
///     ─────────────────            ──────────────                        ───────────────
///     sum of squares  ──────────▶  one number for each of its buckets
///                                  all are there  ─────────────────────▶ all numbers, added in the order of buckets
///     update by scale ◀──────────  scale = limit(sum of squares)
///
/// Numbers are added bucket by bucket, wherever they are held: any number of servers gives the same bits. All of it
/// runs on the communication thread.
class JointNorm {
 public:
  struct Options {
    std::vector<int> servers{};  ///< ranks, ascending, this one among them
    std::size_t buckets = 0;     ///< buckets of the plan
    std::size_t own = 0;         ///< buckets on this server
    /// Returns a new gradient_scale from the present one and the sum of squares of the gradients, before scaling
    std::function<double(double scale, double sum_of_squares)> limit{};
  };
  explicit JointNorm(Options options) : o_(std::move(options)) {}

  /// The sum of squares of this bucket in this step is known; once for each of this server's buckets, 0 if it has none.
  void add(std::int64_t step, std::size_t bucket, double sum_of_squares);
  /// Waits until all sums are known. Returns gradient_scale of this step's updates.
  Task<double> scale(std::int64_t step, double gradient_scale);
  /// One a step on every server, in a slot of its own, besides the rounds. What it throws is CommError.
  Operation operation(int slot, std::int64_t step) {
    return {.name = "length of the gradient",
            .slot = slot,
            .priority = 1 << 29,
            .body = [this, step](Communicator& comm) { return exchange(comm, step); }};
  }

 private:
  Task<> exchange(Communicator& comm, std::int64_t step);
  struct Step {
    std::vector<double> squares;  // sums of squares, by bucket
    std::size_t added = 0;
    bool complete = false, known = false;
    double sum = 0;
    Waiting for_own, for_all;
  };
  Step& at(std::int64_t step);

  const Options o_;
  std::map<std::int64_t, Step> steps_;  // several: a bucket's next round may have begun
};

}  // namespace laconic::dist
