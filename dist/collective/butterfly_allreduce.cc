#include "dist/collective/butterfly_allreduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/collective/pieces.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

/// Tells which ranks work together, and on which blocks.
struct Halving : PowerOfTwo {
  using PowerOfTwo::PowerOfTwo;
  /// `count` of the p nearly equal blocks of x.
  Slice<float> blocks(Slice<float> x, int first, int count) const {
    const std::size_t parts = static_cast<std::size_t>(p), longer = x.size() % parts, base = x.size() / parts;
    const auto start = [&](int b) {
      const std::size_t i = static_cast<std::size_t>(b);
      return i * base + std::min(i, longer);
    };
    return x.sub(start(first), start(first + count) - start(first));
  }
  /// The longest message in elements.
  std::size_t longest(Slice<float> x) const { return paired ? x.size() : x.size() / 2 + static_cast<std::size_t>(p); }
};

/// Sends `out` and receives `in`, in as many messages as it takes; either may be missing. Adds what comes to `sum`,
/// part by part, if that is not empty.
Task<> swap_with(Communicator& comm, int partner, std::optional<Slice<float>> out, std::optional<Slice<float>> in,
                 Slice<float> sum = {}) {
  std::vector<Transfer> receiving, sending;
  const std::size_t outgoing = out ? messages_of(out->size_bytes()) : 0,
                    incoming = in ? messages_of(in->size_bytes()) : 0;
  try {
    for (std::size_t i = 0; i < incoming; ++i) receiving.push_back(comm.recv(partner, in->part(i, incoming).bytes()));
    for (std::size_t i = 0; i < outgoing; ++i) sending.push_back(comm.send(partner, out->part(i, outgoing).bytes()));
    for (std::size_t i = 0; i < incoming; ++i) {
      const Slice<float> part = in->part(i, incoming);
      co_await all_of(comm, receiving[i], partner, part.size_bytes());
      if (!sum.empty()) add_in_place(sum.part(i, incoming), part);
    }
    for (const Transfer& transfer : sending) co_await transfer;
  } catch (...) {
    comm.cancel();  // no transfer may outlive the caller's memory
    throw;
  }
}

Task<> plain_butterfly(Communicator& comm, Slice<float> x) {
  const int r = comm.rank();
  const Halving halving(comm);
  const int p = halving.p, v = halving.v;
  const std::optional<Slice<float>> none;

  if (halving.sits_out) {  // the right neighbour takes x along
    co_await swap_with(comm, r + 1, x, none);
    co_await swap_with(comm, r + 1, none, x);
    co_return;
  }
  Scratch<float> inbox(comm, halving.longest(x), x.device());
  if (halving.paired) {
    const Slice<float> theirs = inbox.first(x.size());
    co_await swap_with(comm, r - 1, none, theirs, x);
  }
  for (int half = p / 2; half >= 1; half /= 2) {
    const int range = v & ~(2 * half - 1);  // first of the 2 half blocks held now
    const int keep = range + (v & half), give = range + (~v & half);
    const int partner = halving.rank_of(v ^ half);
    const Slice<float> out = halving.blocks(x, give, half), mine = halving.blocks(x, keep, half),
                       theirs = inbox.first(mine.size());
    co_await swap_with(comm, partner, out, theirs, mine);
  }
  for (int half = 1; half < p; half *= 2) {
    const int range = v & ~(2 * half - 1), have = range + (v & half), lack = range + (~v & half);
    const int partner = halving.rank_of(v ^ half);
    const Slice<float> out = halving.blocks(x, have, half), in = halving.blocks(x, lack, half);
    co_await swap_with(comm, partner, out, in);
  }
  if (halving.paired) co_await swap_with(comm, r - 1, x, none);
}

Task<> coded_butterfly(Communicator& comm, Slice<float> x, Hops hops) {
  const int r = comm.rank();
  const Halving halving(comm);
  const int p = halving.p, v = halving.v;
  const auto block = [&](int b) { return halving.blocks(x, b, 1); };
  const std::size_t most_bytes = hops.codec->max_bytes(block(0).size());
  Hop hop(comm, hops, halving.longest(x), x.device());

  if (halving.sits_out) {
    hop.load(x, 0, r);
    co_await hop.send(r + 1);
    Scratch<std::byte> message(comm, static_cast<std::size_t>(p) * (kPartHeader + most_bytes), kCpu);  // with lengths
    const Slice<std::byte> in = message.slice();
    const std::size_t came = co_await comm.recv(r + 1, in);
    const std::vector<Slice<const std::byte>> payloads = parts_of(in.first(came), p, most_bytes, r + 1);
    for (int b = 0; b < p; ++b) hop.read(payloads[static_cast<std::size_t>(b)], r + 1, block(b));
    co_return;
  }
  if (halving.paired) {
    Scratch<float> inbox(comm, x.size(), x.device());
    const Slice<float> theirs = inbox.slice();
    co_await hop.recv(r - 1, theirs);
    add_in_place(x, theirs);
  }
  int step = 1;
  for (int half = p / 2; half >= 1; half /= 2) {
    const int range = v & ~(2 * half - 1);
    const int keep = range + (v & half), give = range + (~v & half);
    const int partner = halving.rank_of(v ^ half);
    const Slice<float> mine = halving.blocks(x, keep, half);
    hop.load(halving.blocks(x, give, half), step++, r);
    co_await hop.swap_add(partner, partner, mine);
  }
  hop.load_settled(block(v), step, r);

  std::vector<int> working;
  for (int w = 0; w < p; ++w) working.push_back(halving.rank_of(w));
  const std::unique_ptr<Communicator> others = comm.subgroup(working);
  const Slice<const std::byte> mine = hop.payload();
  Gathered all;
  co_await allgatherv(*others, mine, most_bytes, all);
  for (int b = 0; b < p; ++b)
    if (b != v) hop.read(all[b], halving.rank_of(b), block(b));

  if (halving.paired) {
    compress::Bytes message;
    for (int b = 0; b < p; ++b) append_part(message, all[b]);
    const Slice<std::byte> out = message.slice();
    co_await comm.send(r - 1, out);
  }
}

/// So that a swap's message is one of messages_of() before it is encoded.
int coded_pieces(std::size_t bytes) { return static_cast<int>(messages_of((bytes + 1) / 2)); }

}  // namespace

Task<> butterfly_allreduce(Communicator& comm, Slice<float> x, Hops hops) {
  if (comm.size() == 1) co_return;
  if (hops.codec == nullptr) {
    co_await plain_butterfly(comm, x);
    co_return;
  }
  const int P = coded_pieces(x.size_bytes());
  const std::function<Task<>(Communicator&, int)> piece = [x, hops, P](Communicator& channel, int j) {
    Hops mine = hops;
    mine.key.hop += static_cast<std::uint32_t>(j * (std::bit_width(static_cast<unsigned>(channel.size())) + 1));
    return coded_butterfly(channel, x.part(static_cast<std::size_t>(j), static_cast<std::size_t>(P)), mine);
  };
  co_await in_pieces(comm, P, piece);
}

Cost butterfly_allreduce_cost(int N, double bytes, const compress::Codec* codec) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const double p = power, extra = N - power, folded = extra > 0 ? 1 : 0;
  const double added = (p - 1) / p * bytes + folded * bytes;
  if (codec == nullptr) {
    const auto messages = [](double n) { return static_cast<double>(messages_of(static_cast<std::size_t>(n))); };
    double steps = 0;  // messages of one loop
    for (int half = power / 2; half >= 1; half /= 2) steps += messages(bytes * half / p);
    return {.messages = 2 * steps + 2 * folded * messages(bytes),
            .bytes = 2 * (p - 1) / p * bytes + 2 * folded * bytes,
            .bytes_added = added,
            .all_messages = 2 * steps * p + 2 * extra * messages(bytes),
            .all_bytes = 2 * (p - 1) * bytes + 2 * extra * bytes};
  }
  if (N == 1) return {};
  const int S = coded_pieces(static_cast<std::size_t>(bytes));
  const double payloads = wire_bytes(codec, bytes, S * power) + 4.0 * S * p;  // of the second loop, with their lengths
  const double there_and_back = wire_bytes(codec, bytes, S) + payloads;
  double swapped = (p - 1) / p * payloads;
  for (int half = power / 2; half >= 1; half /= 2) swapped += wire_bytes(codec, bytes, S * power / half) * half / p;
  return {.messages = 2 * S * (std::log2(p) + folded),
          .bytes = swapped + folded * there_and_back,
          .bytes_added = added,
          .all_messages = 2 * S * (std::log2(p) * p + extra),
          .all_bytes = p * swapped + extra * there_and_back};
}

}  // namespace laconic::dist
