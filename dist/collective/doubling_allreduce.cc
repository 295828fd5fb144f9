#include "dist/collective/doubling_allreduce.h"

#include <bit>
#include <cmath>

#include "dist/collective/pieces.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

Task<> doubling_of_piece(Communicator& comm, Slice<float> x, Hops hops) {
  const PowerOfTwo ranks(comm);
  const int r = comm.rank(), v = ranks.v, steps = std::bit_width(static_cast<unsigned>(ranks.p)) - 1;
  Hop hop(comm, hops, x.size(), x.device());

  if (ranks.sits_out) {  // sits out: the right neighbour takes x along
    hop.load(x, 0, r);
    co_await hop.send(r + 1);
    co_await hop.recv(r + 1, x);
    co_return;
  }
  Scratch<float> inbox(comm, x.size(), x.device());
  const Slice<float> theirs = inbox.slice();
  if (ranks.paired) {
    co_await hop.recv(r - 1, theirs);
    add_in_place(x, theirs);
  }
  for (int s = 0; s < steps; ++s) {
    const int bit = 1 << s, partner = ranks.rank_of(v ^ bit), first_of_equals = ranks.rank_of(v & ~(bit - 1));
    hop.load_settled(x, s + 1, first_of_equals, s > 0);
    co_await hop.swap(partner, partner, theirs);
    add_in_place(x, theirs);
  }
  if (ranks.extra > 0) {  // everyone settles on what those who sat out will decode
    hop.load_settled(x, steps + 1, ranks.rank_of(0), true);
    if (ranks.paired) co_await hop.send(r - 1);
  }
}

int doubling_pieces(double bytes) { return static_cast<int>(messages_of(static_cast<std::size_t>(bytes))); }

}  // namespace

Task<> doubling_allreduce(Communicator& comm, Slice<float> x, Hops hops) {
  if (comm.size() == 1) co_return;
  const int P = doubling_pieces(static_cast<double>(x.size_bytes()));
  const std::function<Task<>(Communicator&, int)> piece = [x, hops, P](Communicator& channel, int j) {
    Hops mine = hops;
    mine.key.hop += static_cast<std::uint32_t>(j * (std::bit_width(static_cast<unsigned>(channel.size())) + 1));
    return doubling_of_piece(channel, x.part(static_cast<std::size_t>(j), static_cast<std::size_t>(P)), mine);
  };
  co_await in_pieces(comm, P, piece);
}

Cost doubling_allreduce_cost(int N, double bytes, const compress::Codec* codec) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const int P = doubling_pieces(bytes);
  const double p = power, extra = N - power, steps = std::log2(p), folded = extra > 0 ? 1 : 0,
               wire = wire_bytes(codec, bytes, P);
  return {.messages = P * (steps + 2 * folded),
          .bytes = (steps + 2 * folded) * wire,
          .bytes_added = (steps + folded) * bytes,
          .all_messages = P * (steps * p + 2 * extra),
          .all_bytes = (steps * p + 2 * extra) * wire};
}

}  // namespace laconic::dist
