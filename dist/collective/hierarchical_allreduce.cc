#include "dist/collective/hierarchical_allreduce.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "dist/collective/reduce.h"
#include "dist/collective/reduce_scatter.h"
#include "dist/collective/ring_allgather.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {

Task<> hierarchical_allreduce(Communicator& comm, Slice<float> x, int G) {
  require<UsageError>(G >= 1, "hierarchical allreduce: groups of ", G, " ranks. Give a size of at least 1.");
  const int N = comm.size(), r = comm.rank();
  if (N == 1) co_return;
  const int leader = r / G * G, k = std::min(G, N - leader), me = r - leader;
  const auto block = [&](int b) { return x.part(static_cast<std::size_t>(b), static_cast<std::size_t>(k)); };

  std::vector<int> members(static_cast<std::size_t>(k));
  std::iota(members.begin(), members.end(), leader);
  const std::unique_ptr<Communicator> group = comm.subgroup(members);
  co_await reduce_scatter(*group, x);
  if (me != 0) {
    const Slice<float> mine = block(me);
    co_await group->send(0, mine.bytes());
    co_await recv_exactly(*group, 0, mine.bytes());
  } else {
    for (int m = 1; m < k; ++m) {
      const Slice<float> theirs = block(m);
      co_await recv_exactly(*group, m, theirs.bytes());
    }
    std::vector<int> leading;
    for (int first = 0; first < N; first += G) leading.push_back(first);
    const std::unique_ptr<Communicator> leaders = comm.subgroup(leading);
    co_await ring_allreduce(*leaders, x);
    for (int m = 1; m < k; ++m) {
      const Slice<float> theirs = block(m);
      co_await group->send(m, theirs.bytes());
    }
  }
  co_await ring_allgather(*group, x);
}

Cost hierarchical_allreduce_cost(int N, double bytes, int G) {
  const Cost ring = ring_allreduce_cost((N + G - 1) / G, bytes);
  const double k = std::min(G, N), there_and_back = 4 * (k - 1) / k * bytes;
  Cost cost{.messages = 4 * (k - 1) + ring.messages,
            .bytes = there_and_back + ring.bytes,
            .bytes_added = (k - 1) / k * bytes + ring.bytes_added,
            .all_messages = ring.all_messages,
            .all_bytes = ring.all_bytes};
  for (int first = 0; first < N; first += G) {
    const double m = std::min(G, N - first);  // this group: two rings, and to the leader and back
    cost.all_messages += 2 * m * (m - 1) + 2 * (m - 1);
    cost.all_bytes += (2 * (m - 1) + 2 * (m - 1) / m) * bytes;
  }
  return cost;
}

}  // namespace laconic::dist
