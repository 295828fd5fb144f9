#include "dist/collective/hierarchical_allreduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/collective/reduce.h"
#include "dist/collective/reduce_scatter.h"
#include "dist/collective/ring_allgather.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

Slice<float> block_of(Slice<float> x, int b, int k) {
  return x.part(static_cast<std::size_t>(b), static_cast<std::size_t>(k));
}

/// From the first rank of a group to the others: a block to each, then these go round.
Task<> spread(Communicator& group, Slice<float> x) {
  const int k = group.size(), me = group.rank();
  if (me != 0) {
    const Slice<std::byte> mine = block_of(x, me, k).bytes();
    co_await recv_exactly(group, 0, mine);
  } else {
    for (int m = 1; m < k; ++m) {
      const Slice<std::byte> theirs = block_of(x, m, k).bytes();
      co_await group.send(m, theirs);
    }
  }
  co_await ring_allgather(group, x);
}

/// The same with the payloads of x's blocks, which the first rank has decoded already: a stretch of all payloads, one
/// after another, to each. `leaders` and P: how the ring of leaders cut x.
Task<> spread_payloads(Communicator& group, Slice<float> x, Hops hops, const std::vector<compress::Bytes>& payloads,
                       int leaders, int P) {
  const int k = group.size(), me = group.rank(), count = leaders * P;
  if (k == 1) co_return;
  const std::size_t longest = ring_block(x, 0, leaders, 0, P).size(), most_bytes = hops.codec->max_bytes(longest),
                    most_stretch =
                        static_cast<std::size_t>(count) * (kPartHeader + most_bytes) / static_cast<std::size_t>(k) + 1;
  const auto stretch = [k](Slice<std::byte> message, int m) {
    return message.part(static_cast<std::size_t>(m), static_cast<std::size_t>(k));
  };
  compress::Bytes message;
  Slice<std::byte> mine;
  Scratch<std::byte> inbox(group, me == 0 ? 0 : most_stretch, x.device());
  if (me != 0) {
    mine = inbox.slice();
    const std::size_t came = co_await group.recv(0, mine);
    mine = inbox.first(came);
  } else {
    for (const compress::Bytes& payload : payloads) append_part(message, payload.slice());
    mine = stretch(message.slice(), 0);
    for (int m = 1; m < k; ++m) {
      const Slice<std::byte> theirs = stretch(message.slice(), m);
      co_await group.send(m, theirs);
    }
  }
  Gathered all;
  co_await ring_allgatherv(group, mine, most_stretch, all);
  if (me == 0) co_return;
  for (int m = 0; m < k; ++m)
    if (const Slice<const std::byte> part = all[m]; !part.empty())
      std::memcpy(message.append(part.size()).data(), part.data(), part.size());
  Hop hop(group, hops, longest, x.device());
  const std::vector<Slice<const std::byte>> parts = parts_of(message.slice(), count, most_bytes, 0);
  for (int b = 0; b < leaders; ++b)
    for (int j = 0; j < P; ++j)
      hop.read(parts[static_cast<std::size_t>(b * P + j)], 0, ring_block(x, b, leaders, j, P));
}

}  // namespace

Task<> hierarchical_allreduce(Communicator& comm, Slice<float> x, int G, Hops hops) {
  require<UsageError>(G >= 1, "hierarchical allreduce: groups of ", G, " ranks. Give a size of at least 1.");
  const int N = comm.size(), r = comm.rank();
  if (N == 1) co_return;
  const int leader = r / G * G, k = std::min(G, N - leader), me = r - leader;
  std::vector<int> members(static_cast<std::size_t>(k)), leading;
  std::iota(members.begin(), members.end(), leader);
  for (int first = 0; first < N; first += G) leading.push_back(first);
  const int g = static_cast<int>(leading.size());
  const Pieces pieces = pieces_of(x.size_bytes(), g);
  const std::unique_ptr<Communicator> group = comm.subgroup(members);
  Hops inside = hops, between = hops;
  inside.key.rank += static_cast<std::uint32_t>(leader);
  between.key.hop += static_cast<std::uint32_t>(std::min(G, N));

  co_await reduce_scatter(*group, x, inside);
  {
    Hop hop(*group, inside, block_of(x, 0, k).size(), x.device());
    if (me != 0) {
      hop.load(block_of(x, me, k), k - 1, me);
      co_await hop.send(0);
    }
    for (int m = 1; me == 0 && m < k; ++m) {
      const Slice<float> theirs = block_of(x, m, k);
      co_await hop.recv(m, theirs);
    }
  }
  std::vector<compress::Bytes> payloads;
  if (me == 0) {
    const std::unique_ptr<Communicator> leaders = comm.subgroup(leading);
    co_await ring_allreduce(*leaders, x, pieces, between, hops.codec ? &payloads : nullptr);
  }
  if (hops.codec)
    co_await spread_payloads(*group, x, hops, payloads, g, pieces.count);
  else
    co_await spread(*group, x);
}

Cost hierarchical_allreduce_cost(int N, double bytes, int G, const compress::Codec* codec) {
  const int g = (N + G - 1) / G;
  const Pieces pieces = pieces_of(static_cast<std::size_t>(bytes), g);
  const Cost ring = ring_allreduce_cost(g, bytes, pieces, codec);
  const int most = std::min(G, N);
  const double k = most;
  // Inside a group: what goes to the leader, and back; with a codec the payloads of the ring, with their lengths.
  const double back = codec ? wire_bytes(codec, bytes, g * pieces.count) + 4.0 * g * pieces.count : bytes;
  const double length = codec ? 4 : 0;
  Cost cost{.messages = 4 * (k - 1) + ring.messages,
            .bytes = 2 * (k - 1) / k * (wire_bytes(codec, bytes, most) + back) + length * (k - 1) + ring.bytes,
            .bytes_added = (k - 1) / k * bytes + ring.bytes_added,
            .all_messages = ring.all_messages,
            .all_bytes = ring.all_bytes};
  for (int first = 0; first < N; first += G) {
    const int members = std::min(G, N - first);
    const double m = members;  // of this group: two rings, and to the leader and back
    cost.all_messages += 2 * m * (m - 1) + 2 * (m - 1);
    cost.all_bytes += ((m - 1) + (m - 1) / m) * (wire_bytes(codec, bytes, members) + back) + length * m * (m - 1);
  }
  return N == 1 ? Cost{} : cost;
}

}  // namespace laconic::dist
