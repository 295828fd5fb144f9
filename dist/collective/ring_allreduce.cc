#include "dist/collective/ring_allreduce.h"

#include "dist/collective/pieces.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

/// No piece of a block is longer.
std::size_t longest_of(Slice<float> x, int N, int P) {
  return (x.size() / static_cast<std::size_t>(N) + 1) / static_cast<std::size_t>(P) + 1;
}

/// The ring over the j-th of P parts of every block.
Task<> ring_of_piece(Endpoint& comm, Slice<float> x, int j, int P) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N, last = N - 2;
  const auto block = [&](int b) { return ring_block(x, (b + N) % N, N, j, P); };
  const std::size_t longest = longest_of(x, N, P);
  Scratch<float> inbox(comm, longest * static_cast<std::size_t>(N - 1), x.device());
  const auto addend = [&](int s) {
    return inbox.slice().sub(longest * static_cast<std::size_t>(s), block(r - s - 1).size());
  };

  std::vector<Transfer> reducing, gathering, sending;
  for (int s = 0; s <= last; ++s) {
    const Slice<float> theirs = addend(s);
    reducing.push_back(comm.recv(left, theirs.bytes()));
  }
  sending.push_back(comm.send(right, block(r).bytes()));
  for (int s = 0; s <= last; ++s) {
    const Slice<float> mine = block(r - s - 1), theirs = addend(s), sent = block(r - s);
    co_await all_of(comm, reducing[static_cast<std::size_t>(s)], left, theirs.size_bytes());
    add_in_place(mine, theirs);
    sending.push_back(comm.send(right, mine.bytes()));
    co_await sending[static_cast<std::size_t>(s)];
    gathering.push_back(comm.recv(left, sent.bytes()));
  }
  for (int s = 0; s <= last; ++s) {
    const Slice<float> in = block(r - s);
    co_await all_of(comm, gathering[static_cast<std::size_t>(s)], left, in.size_bytes());
    if (s < last) sending.push_back(comm.send(right, in.bytes()));
  }
  for (std::size_t i = static_cast<std::size_t>(N) - 1; i < sending.size(); ++i) co_await sending[i];
}

/// The ring of one piece, with every block as a payload of a codec.
Task<> coded_ring_of_piece(Endpoint& comm, Slice<float> x, int j, int P, Hops hops,
                           std::vector<compress::Bytes>* payloads) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  const auto block = [&](int b) { return ring_block(x, (b + N) % N, N, j, P); };
  hops.key.hop += static_cast<std::uint32_t>(j * N);  // N of every piece
  Hop hop(comm, hops, longest_of(x, N, P), x.device());
  const auto keep = [&](int b) {
    if (payloads) hop.keep((*payloads)[static_cast<std::size_t>((b + N) % N * P + j)]);
  };

  const Slice<float> done = block(r + 1);
  if (N > 1) {
    hop.load(block(r), 0, r);
    for (int s = 0; s < N - 2; ++s) {  // what comes is added to and goes on, without a sum that stays
      const Slice<float> mine = block(r - s - 1);
      co_await hop.swap_add_load(right, left, mine, s + 1, r);
    }
    co_await hop.swap_add(right, left, done);
  }
  hop.load_settled(done, N - 1, r);
  keep(r + 1);
  for (int s = 0; s < N - 1; ++s) {
    const Slice<float> in = block(r - s);
    co_await hop.swap(right, left, in);
    hop.forward(in);
    keep(r - s);
  }
}

}  // namespace

Task<> ring_allreduce(Communicator& comm, Slice<float> x, int pieces, Hops hops,
                      std::vector<compress::Bytes>* payloads) {
  if (comm.size() == 1 && payloads == nullptr) co_return;
  const int P = pieces > 0 ? pieces : pieces_of(x.size_bytes(), comm.size());
  if (payloads) payloads->resize(static_cast<std::size_t>(comm.size() * P));
  const std::function<Task<>(Communicator&, int)> piece = [x, P, hops, payloads](Communicator& channel, int j) {
    return hops.codec ? coded_ring_of_piece(channel, x, j, P, hops, payloads) : ring_of_piece(channel, x, j, P);
  };
  co_await in_pieces(comm, P, piece);
}

Task<> ring_in_one_piece(Endpoint& comm, Slice<float> x, Hops hops) {
  return hops.codec ? coded_ring_of_piece(comm, x, 0, 1, hops, nullptr) : ring_of_piece(comm, x, 0, 1);
}

Cost ring_allreduce_cost(int N, double bytes, int pieces, const compress::Codec* codec) {
  const int P = pieces > 0 ? pieces : pieces_of(static_cast<std::size_t>(bytes), N);
  const double n = N;
  return cost_of_equals(N, 2 * (n - 1) * P, 2 * (n - 1) * wire_bytes(codec, bytes, N * P), (n - 1) / n * bytes);
}

}  // namespace laconic::dist
