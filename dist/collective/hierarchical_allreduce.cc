#include "dist/collective/hierarchical_allreduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/collective/reduce.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/collective/ring_halves.h"
#include "dist/collective/tree_allreduce.h"

namespace laconic::dist {
namespace {

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

/// The parts of x that the leaders encode: a ring's are P pieces of a block each, a tree's P pieces.
struct EncodedParts {
  EncodedParts(LeadersBy by, int leaders, std::size_t bytes)
      : blocks(by == LeadersBy::ring ? leaders : 1),
        P(by == LeadersBy::ring ? pieces_of(bytes, leaders) : tree_pieces(bytes)) {}
  int count() const { return blocks * P; }
  Slice<float> part(Slice<float> x, int i) const { return ring_block(x, i / P, blocks, i % P, P); }

  const int blocks, P;
};

/// Spreads x as the payloads of its parts, which the first rank has decoded already. Each rank gets a stretch of all
/// payloads, one after another. They travel in host memory: their lengths stand between them.
Task<> spread_payloads(Communicator& group, Slice<float> x, Hops hops, const std::vector<compress::Bytes>& payloads,
                       EncodedParts encoded) {
  const int k = group.size(), me = group.rank(), count = encoded.count();
  if (k == 1) co_return;
  const std::size_t longest = encoded.part(x, 0).size(), most_bytes = hops.codec->max_bytes(longest),
                    most_stretch =
                        static_cast<std::size_t>(count) * (kPartHeader + most_bytes) / static_cast<std::size_t>(k) + 1;
  const auto stretch = [k](Slice<std::byte> message, int m) {
    return message.part(static_cast<std::size_t>(m), static_cast<std::size_t>(k));
  };
  compress::Bytes message;
  Slice<std::byte> mine;
  Scratch<std::byte> inbox(group, me == 0 ? 0 : most_stretch, kCpu);
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
  for (int i = 0; i < count; ++i) hop.read(parts[static_cast<std::size_t>(i)], 0, encoded.part(x, i));
}

}  // namespace

Task<> hierarchical_allreduce(Communicator& comm, Slice<float> x, int G, Hops hops, LeadersBy by) {
  require<UsageError>(G >= 1, "hierarchical allreduce: groups of ", G, " ranks. Give a size of at least 1.");
  require<UsageError>(G >= 2 || by == LeadersBy::ring, "ring-tree allreduce: groups of ", G,
                      " ranks never become one. Give a size of at least 2.");
  const int N = comm.size(), r = comm.rank();
  if (N == 1) co_return;
  const int leader = r / G * G, k = std::min(G, N - leader), me = r - leader;
  std::vector<int> members(static_cast<std::size_t>(k)), leading;
  std::iota(members.begin(), members.end(), leader);
  for (std::int64_t first = 0; first < N; first += G) leading.push_back(static_cast<int>(first));
  const int g = static_cast<int>(leading.size());
  const EncodedParts encoded(by, g, x.size_bytes());
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
    std::vector<compress::Bytes>* const kept = hops.codec ? &payloads : nullptr;
    if (by == LeadersBy::ring)
      co_await ring_allreduce(*leaders, x, encoded.P, between, kept);
    else
      co_await tree_allreduce(*leaders, x, G, between, kept);
  }
  if (hops.codec)
    co_await spread_payloads(*group, x, hops, payloads, encoded);
  else
    co_await spread(*group, x);
}

Cost hierarchical_allreduce_cost(int N, double bytes, int G, const compress::Codec* codec, LeadersBy by) {
  const int g = (N - 1) / G + 1;
  const EncodedParts encoded(by, g, static_cast<std::size_t>(bytes));
  const Cost above =
      by == LeadersBy::ring ? ring_allreduce_cost(g, bytes, encoded.P, codec) : tree_allreduce_cost(g, bytes, G, codec);
  const int most = std::min(G, N);
  const double k = most;
  // Inside a group: what goes to the leader, and back; with a codec the leaders' payloads, with their lengths.
  const double back = codec ? wire_bytes(codec, bytes, encoded.count()) + 4.0 * encoded.count() : bytes;
  const double length = codec ? 4 : 0;
  Cost cost{.messages = 4 * (k - 1) + above.messages,
            .bytes = 2 * (k - 1) / k * (wire_bytes(codec, bytes, most) + back) + length * (k - 1) + above.bytes,
            .bytes_added = (k - 1) / k * bytes + above.bytes_added,
            .all_messages = above.all_messages,
            .all_bytes = above.all_bytes};
  for (std::int64_t first = 0; first < N; first += G) {
    const int members = static_cast<int>(std::min<std::int64_t>(G, N - first));
    const double m = members;  // of this group: two rings, and to the leader and back
    cost.all_messages += 2 * m * (m - 1) + 2 * (m - 1);
    cost.all_bytes += ((m - 1) + (m - 1) / m) * (wire_bytes(codec, bytes, members) + back) + length * m * (m - 1);
  }
  return N == 1 ? Cost{} : cost;
}

}  // namespace laconic::dist
