#include "dist/collective/doubling_allreduce.h"

#include <bit>
#include <cmath>

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> doubling_allreduce(Communicator& comm, Slice<float> x, Hops hops) {
  if (comm.size() == 1) co_return;
  const PowerOfTwo ranks(comm);
  const int r = comm.rank(), v = ranks.v, steps = std::bit_width(static_cast<unsigned>(ranks.p)) - 1;
  Hop hop(comm, hops, x.size(), x.device());

  if (ranks.sits_out) {  // sits out: the right neighbour takes x along
    hop.load(x, 0, r);
    co_await hop.send(r + 1);
    co_await hop.recv(r + 1, x);
    co_return;
  }
  Scratch<float> inbox(comm, x.size(), x.device());
  const Slice<float> theirs = inbox.slice();
  if (ranks.paired) {
    co_await hop.recv(r - 1, theirs);
    add_in_place(x, theirs);
  }
  for (int s = 0; s < steps; ++s) {
    const int bit = 1 << s, partner = ranks.rank_of(v ^ bit), first_of_equals = ranks.rank_of(v & ~(bit - 1));
    hop.load_settled(x, s + 1, first_of_equals, s > 0);
    co_await hop.swap(partner, partner, theirs);
    add_in_place(x, theirs);
  }
  if (ranks.extra > 0) {  // everyone settles on what those who sat out will decode
    hop.load_settled(x, steps + 1, ranks.rank_of(0), true);
    if (ranks.paired) co_await hop.send(r - 1);
  }
}

Cost doubling_allreduce_cost(int N, double bytes, const compress::Codec* codec) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const double p = power, extra = N - power, steps = std::log2(p), folded = extra > 0 ? 1 : 0,
               wire = wire_bytes(codec, bytes, 1);
  return {.messages = steps + 2 * folded,
          .bytes = (steps + 2 * folded) * wire,
          .bytes_added = (steps + folded) * bytes,
          .all_messages = steps * p + 2 * extra,
          .all_bytes = (steps * p + 2 * extra) * wire};
}

}  // namespace laconic::dist
