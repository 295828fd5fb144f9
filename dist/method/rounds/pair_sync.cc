#include "dist/method/rounds/pair_sync.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/random.h"
#include "core/raw.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

Task<> nobody_to_meet() { co_return; }

void add_multiple(const Tensor& y, float a, const Tensor& x) {
  if (a == 0) return;
  GhostWork::tell(y.device(), Work::adding, y.bytes());
  raw::axpy(y, a, x);
}

}  // namespace

/// Neighbours in a shuffled order meet.
std::optional<int> partner_of(int rank, int N, std::uint64_t seed, std::int64_t step) {
  std::vector<int> order(static_cast<std::size_t>(N));
  std::iota(order.begin(), order.end(), 0);
  Random(seed, Purpose::pairing, static_cast<std::uint64_t>(step)).shuffle(order);
  const auto place = static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin()) ^ 1;
  return place < order.size() ? std::optional(order[place]) : std::nullopt;
}

Operation PairSync::exchange(std::size_t b) {
  const std::optional<int> other = partner(b);
  if (!other)
    return {.name = "no exchange of " + bucket(b).name, .body = [](Communicator&) { return nobody_to_meet(); }};
  const std::int64_t offset = bucket(b).offset, n = bucket(b).elements;
  add_multiple(arena().gradients().range(offset, n), -pull_, arena().values().range(offset, n));
  return {.name = "exchange of " + bucket(b).name,
          .body = [other = *other, ours = part(arena().gradients(), bucket(b)), theirs = part(theirs_, bucket(b))](
                      Communicator& comm) { return dist::exchange(comm, other, ours, other, theirs); }};
}

void PairSync::arrived(std::size_t b) {
  StepContext context = context_of(b);
  if (partner(b)) {
    const std::int64_t offset = bucket(b).offset, n = bucket(b).elements;
    const Tensor sum = arena().gradients().range(offset, n);
    add_in_place(sum.slice(), part(theirs_, bucket(b)));
    add_multiple(sum, 2 * pull_, arena().values().range(offset, n));
  } else {
    context.gradient_scale = 1;
  }
  for (const auto& p : parameters_of(bucket(b))) update_(*p, rows_of(bucket(b), *p), context);
}

}  // namespace laconic::dist
