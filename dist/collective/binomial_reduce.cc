#include "dist/collective/binomial_reduce.h"

#include <bit>

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> binomial_reduce(Communicator& comm, Slice<float> x, int root) {
  const int N = comm.size();
  const int v = (comm.rank() - root + N) % N;  // counted from the root
  if (N == 1) co_return;
  Scratch<float> inbox(comm, x.size(), x.device());
  const Slice<float> theirs = inbox.slice();
  for (int bit = 1; bit < N; bit *= 2) {
    if (v & bit) {
      const int to = (v - bit + root) % N;
      co_await comm.send(to, x.bytes());
      co_return;
    }
    if (v + bit >= N) continue;
    const int from = (v + bit + root) % N;
    co_await recv_exactly(comm, from, theirs.bytes());
    add_in_place(x, theirs);
  }
}

Cost binomial_reduce_cost(int N, double bytes) {
  const double steps = std::bit_width(static_cast<unsigned>(N - 1));
  return {.messages = steps,
          .bytes = steps * bytes,
          .bytes_added = steps * bytes,
          .all_messages = N - 1.0,
          .all_bytes = (N - 1.0) * bytes};
}

}  // namespace laconic::dist
