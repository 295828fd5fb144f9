#include "dist/collective/ring_halves.h"

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> reduce_scatter(Communicator& comm, Slice<float> x, Hops hops) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  const auto block = [&](int b) { return block_of(x, b, N); };
  const std::size_t longest = block(0).size();
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

Task<> ring_allgather(Communicator& comm, Slice<float> x, Hops hops) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  Hop hop(comm, hops, block_of(x, 0, N).size(), x.device());
  // One hop number for all: a block is encoded once. It goes on counting where a reduce-scatter of N-1 steps ended.
  hop.load_settled(block_of(x, r, N), N - 1, r);
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> in = block_of(x, r - s - 1, N);
    co_await hop.swap(right, left, in);
    hop.forward(in);
  }
}

}  // namespace laconic::dist
