#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "dist/method/bucket_sync.h"

namespace laconic::dist {

/// The other one of this rank's pair, at the end of the round that ends with this step: all ranks draw the same perfect
/// matching of N. Nothing for the one that is left over where N is odd.   O(N)
std::optional<int> partner_of(int rank, int N, std::uint64_t seed, std::int64_t step);

/// Sums over two ranks instead of all. d stands in the arena's gradients, x in its values; each sends the other one
/// message, u, and finds its own sum (whoever weighs the two scales d before):
///
///     u = d - PULL x        s = u + u' + 2 PULL x  =  d + d' + PULL (x - x')        in the place of d
///
/// The update is told that the mean is s / 2. The one that is left over is a pair of its own: s = d, and so is the
/// mean. Pairs do not wait for one another. Two ranks that have the same x find the same bits in s.
///   cost     n floats are sent by each of a pair; memory of one copy of the arena
///   throws   CommError if the other one is lost, or sends another length
///   source   NoLoCo (Kolehmainen et al. 2025)
class PairSync final : public BucketSync {
 public:
  PairSync(WorkerSide side, double pull)
      : BucketSync(side.arena, side.engine, side.plan, "pairs", side.facts, 2),
        update_(std::move(side.update)),
        seed_(side.facts.seed),
        pull_(static_cast<float>(pull)),
        theirs_(side.arena.make_state()) {}
  ~PairSync() override { halt_what_is_under_way(); }

 private:
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  std::optional<int> partner(std::size_t b) const {
    return partner_of(engine().rank(), engine().size(), seed_, context_of(b).step);
  }

  const Update update_;
  const std::uint64_t seed_;
  const float pull_;
  const Tensor theirs_;  // u', laid out like the arena
};

}  // namespace laconic::dist
