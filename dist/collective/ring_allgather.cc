#include "dist/collective/ring_allgather.h"

namespace laconic::dist {

Task<> ring_allgather(Communicator& comm, Slice<float> x, Hops hops) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  const auto block = [&](int b) { return x.part(static_cast<std::size_t>((b + N) % N), static_cast<std::size_t>(N)); };
  Hop hop(comm, hops, block(0).size(), x.device());
  // One hop number for all: a block is encoded once. It goes on counting where a reduce-scatter of N-1 steps ended.
  hop.load(block(r), N - 1, r);
  hop.settle(block(r));
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> in = block(r - s - 1);
    co_await hop.swap(right, left, in);
    hop.forward(in);
  }
}

Cost ring_allgather_cost(int N, double bytes, const compress::Codec* codec) {
  const double n = N, wire = wire_bytes(codec, bytes, N);
  return {.messages = n - 1,
          .bytes = (n - 1) / n * wire,
          .bytes_added = 0,
          .all_messages = n * (n - 1),
          .all_bytes = (n - 1) * wire};
}

}  // namespace laconic::dist
