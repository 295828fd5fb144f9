#include "dist/collective/ring_allreduce.h"

#include <vector>

#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

/// The ring over the j-th of P parts of every block.
Task<> ring_of_piece(Communicator& comm, Slice<float> x, int j, int P) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N, last = N - 2;
  const auto block = [&](int b) {
    return x.part(static_cast<std::size_t>((b + N) % N), static_cast<std::size_t>(N))
        .part(static_cast<std::size_t>(j), static_cast<std::size_t>(P));
  };
  const std::size_t longest = (x.size() / static_cast<std::size_t>(N) + 1) / static_cast<std::size_t>(P) + 1;
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
    co_await add(comm, mine, theirs);
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

}  // namespace

Task<> ring_allreduce(Communicator& comm, Slice<float> x, Pieces pieces) {
  if (comm.size() == 1) co_return;
  const std::function<Task<>(Communicator&, int)> piece = [x, P = pieces.count](Communicator& channel, int j) {
    return ring_of_piece(channel, x, j, P);
  };
  co_await in_pieces(comm, pieces, piece);
}

Task<> ring_allreduce(Communicator& comm, Slice<float> x) {
  return ring_allreduce(comm, x, pieces_of(x.size_bytes(), comm.size()));
}

Cost ring_allreduce_cost(int N, double bytes, Pieces pieces) {
  const double n = N, P = pieces.count;
  return {.messages = 2 * (n - 1) * P,
          .bytes = 2 * (n - 1) / n * bytes,
          .bytes_added = (n - 1) / n * bytes,
          .all_messages = 2 * (n - 1) * n * P,
          .all_bytes = 2 * (n - 1) * bytes};
}

Cost ring_allreduce_cost(int N, double bytes) {
  return ring_allreduce_cost(N, bytes, pieces_of(static_cast<std::size_t>(bytes), N));
}

}  // namespace laconic::dist
