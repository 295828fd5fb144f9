#pragma once
#include <cstddef>
#include <functional>

#include "dist/communicator.h"

namespace laconic::dist {

/// How a large operation is cut, so that a more urgent one overtakes it between two pieces, and so that adding one
/// piece goes on while another travels.
struct Pieces {
  int count = 1;
  int in_flight = 8;  ///< pieces under way at once, at most Communicator::kChannels; bounds the memory for messages
};

/// Pieces of 256 KiB, but messages of at least 64 KiB. Larger ones let the link rest where ranks begin at different
/// times, as they do in training (a ring of 1 MiB, 4 ranks, 100 Mb/s: 190 ms in one piece, 137 in four); at 1 Gb/s all
/// sizes reach 99 % of one TCP flow. `bytes` on each of N ranks.
Pieces pieces_of(std::size_t bytes, int N);

/// body(channel, j) for every piece j. Pieces j, j + in_flight, j + 2 in_flight ... follow one another on one channel;
/// the channels run beside each other.
///   cannot deadlock: of the pieces unfinished somewhere let j be the first. All before it are finished everywhere, so
///   every rank has begun it, and it ends as it would alone. Hence ranks need not agree on anything but `pieces`.
///   throws the first error of a piece; the others are ended with the same.
Task<> in_pieces(Communicator& comm, Pieces pieces, std::function<Task<>(Communicator&, int)> body);

}  // namespace laconic::dist
