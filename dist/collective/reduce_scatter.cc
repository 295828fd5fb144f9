#include "dist/collective/reduce_scatter.h"

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> reduce_scatter(Communicator& comm, Slice<float> x, Hops hops) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  const auto block = [&](int b) {
    return x.part(static_cast<std::size_t>((b + 2 * N) % N), static_cast<std::size_t>(N));
  };
  const std::size_t longest = x.part(0, static_cast<std::size_t>(N)).size();
  Hop hop(comm, hops, longest, x.device());
  if (hops.codec != nullptr) {
    hop.load(block(r - 1), 0, r);
    for (int s = 0; s < N - 2; ++s) {
      const Slice<float> mine = block(r - s - 2);
      co_await hop.swap_add_load(right, left, mine, s + 1, r);
    }
    const Slice<float> done = block(r);
    co_await hop.swap_add(right, left, done);
    co_return;
  }
  Scratch<float> inbox(comm, longest, x.device());
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> out = block(r - s - 1), mine = block(r - s - 2), theirs = inbox.first(mine.size());
    hop.load(out, s, r);
    co_await hop.swap(right, left, theirs);
    add_in_place(mine, theirs);
  }
}

Cost reduce_scatter_cost(int N, double bytes, const compress::Codec* codec) {
  const double n = N, wire = wire_bytes(codec, bytes, N);
  return {.messages = n - 1,
          .bytes = (n - 1) / n * wire,
          .bytes_added = (n - 1) / n * bytes,
          .all_messages = n * (n - 1),
          .all_bytes = (n - 1) * wire};
}

}  // namespace laconic::dist
