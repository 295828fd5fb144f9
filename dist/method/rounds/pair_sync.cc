#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/raw.h"
#include "dist/collective/reduce.h"
#include "dist/method/rounds/rounds.h"

namespace laconic::dist {
namespace {

Task<> nobody_to_meet() { co_return; }

void add_multiple(const Tensor& y, float a, const Tensor& x) {
  if (a == 0) return;
  GhostWork::tell(y.device(), Work::adding, y.bytes());
  raw::axpy(y, a, x);
}

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
  std::optional<int> partner(std::size_t b) const {
    return partner_of(engine().rank(), engine().size(), seed_, context_of(b).step);
  }

  Operation exchange(std::size_t b) override {
    const std::optional<int> other = partner(b);
    if (!other)
      return {.name = "no exchange of " + bucket(b).name, .body = [](Communicator&) { return nobody_to_meet(); }};
    add_multiple(part_of(arena().gradients(), b), -pull_, part_of(arena().values(), b));
    return {.name = "exchange of " + bucket(b).name,
            .body = [other = *other, ours = part(arena().gradients(), bucket(b)), theirs = part(theirs_, bucket(b))](
                        Communicator& comm) { return dist::exchange(comm, other, ours, other, theirs); }};
  }

  void arrived(std::size_t b) override {
    StepContext context = context_of(b);
    if (partner(b)) {
      const Tensor sum = part_of(arena().gradients(), b);
      add_in_place(sum.slice(), part(theirs_, bucket(b)));
      add_multiple(sum, 2 * pull_, part_of(arena().values(), b));
    } else {
      context.gradient_scale = 1;
    }
    for_parts(b, [&](Parameter& p, Rows rows) { update_(p, rows, context); });
  }

  const Update update_;
  const std::uint64_t seed_;
  const float pull_;
  const Tensor theirs_;  // u', laid out like the arena
};

}  // namespace

/// Neighbours in a shuffled order meet.
std::optional<int> partner_of(int rank, int N, std::uint64_t seed, std::int64_t step) {
  std::vector<int> order(static_cast<std::size_t>(N));
  std::iota(order.begin(), order.end(), 0);
  Random(seed, Purpose::pairing, static_cast<std::uint64_t>(step)).shuffle(order);
  const auto place = static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin()) ^ 1;
  return place < order.size() ? std::optional(order[place]) : std::nullopt;
}

std::unique_ptr<BucketSync> make_pair_sync(WorkerSide side, double pull) {
  return std::make_unique<PairSync>(std::move(side), pull);
}

}  // namespace laconic::dist
