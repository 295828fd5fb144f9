#include "dist/collective/tree_allreduce.h"

#include <algorithm>

#include "dist/collective/pieces.h"

namespace laconic::dist {
namespace {

/// Groups of G until one rank is left.
int levels_of(int N, int G) {
  int levels = 0;
  for (std::int64_t stride = 1; stride < N; stride *= G) ++levels;
  return levels;
}

Task<> tree_of_piece(Communicator& comm, Slice<float> x, int G, Hops hops, compress::Bytes* payload) {
  const std::int64_t N = comm.size(), r = comm.rank();
  Hop hop(comm, hops, x.size(), x.device());
  const bool adds = r % G == 0 && r + 1 < N;
  Scratch<float> inbox(comm, hops.codec == nullptr && adds ? x.size() : 0, x.device());
  const Slice<float> room = inbox.slice();

  std::int64_t stride = 1;  // distance from member to member in the groups of a level
  int level = 0;
  for (; stride < N && r / stride % G == 0; stride *= G, ++level)
    for (std::int64_t m = 1; m < G && r + m * stride < N; ++m) {
      const int from = static_cast<int>(r + m * stride);
      co_await hop.recv_add(from, x, room);
    }
  if (r == 0) {
    hop.load_settled(x, level, 0);
  } else {
    hop.load(x, level, static_cast<int>(r));
    const int leader = static_cast<int>(r / (stride * G) * (stride * G));
    co_await hop.send(leader);
    co_await hop.recv(leader, x);
    hop.forward(x);
  }
  if (payload != nullptr) hop.keep(*payload);
  while (stride > 1) {  // those with most below them first
    stride /= G;
    for (std::int64_t m = 1; m < G && r + m * stride < N; ++m) {
      const int to = static_cast<int>(r + m * stride);
      co_await hop.send(to);
    }
  }
}

}  // namespace

Task<> tree_allreduce(Communicator& comm, Slice<float> x, int G, Hops hops, std::vector<compress::Bytes>* payloads) {
  require<UsageError>(G >= 2, "tree allreduce: groups of ", G, " ranks never become one. Give a size of at least 2.");
  if (comm.size() == 1 && payloads == nullptr) co_return;
  const int P = tree_pieces(x.size_bytes());
  if (payloads) payloads->resize(static_cast<std::size_t>(P));
  const std::function<Task<>(Communicator&, int)> piece = [x, G, hops, payloads, P](Communicator& channel, int j) {
    const auto at = static_cast<std::size_t>(j);
    Hops mine = hops;
    mine.key.hop += static_cast<std::uint32_t>(j * (levels_of(channel.size(), G) + 1));
    return tree_of_piece(channel, x.part(at, static_cast<std::size_t>(P)), G, mine,
                         payloads ? &(*payloads)[at] : nullptr);
  };
  co_await in_pieces(comm, P, piece);
}

Cost tree_allreduce_cost(int N, double bytes, int G, const compress::Codec* codec) {
  const int P = tree_pieces(static_cast<std::size_t>(bytes));
  const double wire = wire_bytes(codec, bytes, P), n = N;
  double children = 0;  // children of rank 0
  for (std::int64_t stride = 1; stride < N; stride *= G)
    children += static_cast<double>(std::min<std::int64_t>(G, (N + stride - 1) / stride) - 1);
  return {.messages = 2 * children * P,
          .bytes = 2 * children * wire,
          .bytes_added = children * bytes,
          .all_messages = 2 * (n - 1) * P,
          .all_bytes = 2 * (n - 1) * wire};
}

}  // namespace laconic::dist
