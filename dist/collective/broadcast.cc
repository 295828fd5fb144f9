#include "dist/collective/broadcast.h"

#include <bit>

#include "dist/collective/reduce.h"

namespace laconic::dist {

Task<> broadcast(Communicator& comm, Slice<std::byte> bytes, int root) {
  const int N = comm.size();
  const int v = (comm.rank() - root + N) % N;  // counted from the root
  int reach = 1;                               // ranks that have the data once this one has it
  if (v > 0) {
    reach = 2 * static_cast<int>(std::bit_floor(static_cast<unsigned>(v)));
    const int from = (v - reach / 2 + root) % N;
    co_await recv_exactly(comm, from, bytes);
  }
  for (; v + reach < N; reach *= 2) {
    const int to = (v + reach + root) % N;
    co_await comm.send(to, bytes);
  }
}

Cost broadcast_cost(int N, double bytes) {
  const double steps = std::bit_width(static_cast<unsigned>(N - 1));
  return {.messages = steps,
          .bytes = steps * bytes,
          .bytes_added = 0,
          .all_messages = N - 1.0,
          .all_bytes = (N - 1.0) * bytes};
}

}  // namespace laconic::dist
