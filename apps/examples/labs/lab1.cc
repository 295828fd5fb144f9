// Lab 1: a ring allreduce from send and receive. docs/labs/1-ring.md
#include "labs.h"

namespace lab {

/// Afterwards x holds the sum over all ranks, on every rank.
///
/// x is cut into N blocks. In the reduce-scatter a block goes round the ring, and every rank adds its own numbers to
/// it; after N-1 steps rank r has the finished block r+1. In the allgather the finished blocks go round once more.
Task<> allreduce(Communicator& comm, Slice<float> x) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  const auto block = [&](int b) { return block_of(x, b, N); };  // counted round: -1 is the last
  Scratch<float> inbox(comm, x.size() / static_cast<std::size_t>(N) + 1, kCpu);

  // TO DO. Step 0 of the reduce-scatter stands here. Make it all N-1 steps. Then write the allgather.
  const Slice<float> out = block(r), sum = block(r - 1), in = inbox.first(sum.size());
  const Transfer receiving = comm.recv(left, in.bytes());  // both are under way from here on
  const Transfer sending = comm.send(right, out.bytes());
  co_await receiving;
  co_await sending;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
}

}  // namespace lab
