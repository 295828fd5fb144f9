#include "dist/collective/ring_allreduce.h"

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> ring_allreduce(Communicator& comm, Slice<float> x) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  if (N == 1) co_return;
  const auto block = [&](int b) { return x.part(static_cast<std::size_t>((b + N) % N), static_cast<std::size_t>(N)); };
  Scratch<float> inbox(comm, x.size() / static_cast<std::size_t>(N) + 1, x.device());
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> out = block(r - s), mine = block(r - s - 1), theirs = inbox.first(mine.size());
    co_await exchange(comm, right, out, left, theirs);
    co_await add(comm, mine, theirs);
  }
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> out = block(r - s + 1), in = block(r - s);
    co_await exchange(comm, right, out, left, in);
  }
}

Cost ring_allreduce_cost(int N, double bytes) {
  const double n = N;
  return {.messages = 2 * (n - 1),
          .bytes = 2 * (n - 1) / n * bytes,
          .bytes_added = (n - 1) / n * bytes,
          .all_messages = 2 * (n - 1) * n,
          .all_bytes = 2 * (n - 1) * bytes};
}

}  // namespace laconic::dist
