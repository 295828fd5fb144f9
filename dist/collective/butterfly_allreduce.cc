#include "dist/collective/butterfly_allreduce.h"

#include <bit>
#include <cmath>

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> butterfly_allreduce(Communicator& comm, Slice<float> x) {
  const int N = comm.size(), r = comm.rank();
  if (N == 1) co_return;
  const int p = static_cast<int>(std::bit_floor(static_cast<unsigned>(N))), extra = N - p;
  const bool paired = r < 2 * extra;

  if (paired && r % 2 == 0) {  // sits out: the right neighbour takes x along
    co_await comm.send(r + 1, x.bytes());
    co_await recv_exactly(comm, r + 1, x.bytes());
    co_return;
  }
  Scratch<float> inbox(comm, paired ? x.size() : x.size() / 2 + static_cast<std::size_t>(p), x.device());
  if (paired) {
    const Slice<float> theirs = inbox.first(x.size());
    co_await recv_exactly(comm, r - 1, theirs.bytes());
    co_await add(comm, x, theirs);
  }

  // The p ranks that are left, numbered without gaps.
  const int v = paired ? r / 2 : r - extra;
  const auto rank_of = [&](int w) { return w < extra ? 2 * w + 1 : w + extra; };
  const auto blocks = [&](int first, int count) {
    const std::size_t parts = static_cast<std::size_t>(p), longer = x.size() % parts, base = x.size() / parts;
    const auto start = [&](int b) {
      const std::size_t i = static_cast<std::size_t>(b);
      return i * base + std::min(i, longer);
    };
    return x.sub(start(first), start(first + count) - start(first));
  };
  for (int half = p / 2; half >= 1; half /= 2) {
    const int range = v & ~(2 * half - 1);  // first of the 2 half blocks held now
    const int keep = range + (v & half), give = range + (~v & half);
    const int partner = rank_of(v ^ half);
    const Slice<float> out = blocks(give, half), mine = blocks(keep, half), theirs = inbox.first(mine.size());
    co_await exchange(comm, partner, out, partner, theirs);
    co_await add(comm, mine, theirs);
  }
  for (int half = 1; half < p; half *= 2) {
    const int range = v & ~(2 * half - 1), have = range + (v & half), lack = range + (~v & half);
    const int partner = rank_of(v ^ half);
    const Slice<float> out = blocks(have, half), in = blocks(lack, half);
    co_await exchange(comm, partner, out, partner, in);
  }

  if (paired) co_await comm.send(r - 1, x.bytes());
}

Cost butterfly_allreduce_cost(int N, double bytes) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const double p = power, extra = N - power, steps = std::log2(p), folded = extra > 0 ? 1 : 0;
  return {.messages = 2 * steps + 2 * folded,
          .bytes = 2 * (p - 1) / p * bytes + 2 * folded * bytes,
          .bytes_added = (p - 1) / p * bytes + folded * bytes,
          .all_messages = 2 * steps * p + 2 * extra,
          .all_bytes = 2 * (p - 1) * bytes + 2 * extra * bytes};
}

}  // namespace laconic::dist
