#pragma once
#include <cstddef>
#include <functional>

#include "dist/communicator.h"

namespace laconic::dist {

/// How many pieces so many bytes on each of N ranks are cut into, so that a more urgent operation overtakes between two
/// of them, and adding one goes on while another travels: pieces of 256 KiB, but messages of at least 64 KiB. Larger
/// ones let the link rest where ranks begin at different times, as they do in training (a ring of 1 MiB, 4 ranks, 100
/// Mb/s: 190 ms in one piece, 137 in four); at 1 Gb/s all sizes reach 99 % of one TCP flow.
int pieces_of(std::size_t bytes, int N);

/// How many messages so many bytes travel as where two ranks swap them: large messages in both directions lose 25 to 45
/// % of a TCP link, messages of 256 KiB do not.
std::size_t messages_of(std::size_t bytes);

/// body(channel, j) for every piece j of `count`. Pieces j, j + kChannels, j + 2 kChannels ... follow one another on
/// one channel, which bounds the memory for messages; the channels run beside each other.
///   cannot deadlock: of the pieces unfinished somewhere let j be the first. All before it are finished everywhere, so
///   every rank has begun it, and it ends as it would alone. Hence ranks need not agree on anything but `count`.
///   throws the first error of a piece; the others are ended with the same.
Task<> in_pieces(Communicator& comm, int count, std::function<Task<>(Communicator&, int)> body);

}  // namespace laconic::dist
