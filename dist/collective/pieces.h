#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dist/engine/communicator.h"

namespace laconic::dist {

/// The number of pieces that `bytes` on each of N ranks are cut into, so that a more urgent operation overtakes between
/// two of them, and adding one goes on while another travels: pieces of 256 KiB, but messages of at least 64 KiB.
/// Larger ones let the link rest where ranks begin at different times, as they do in training (a ring of 1 MiB, 4
/// ranks, 100 Mb/s: 190 ms in one piece, 137 in four); at 1 Gb/s all sizes reach 99 % of one TCP flow.
int pieces_of(std::size_t bytes, int N);

/// The number of messages that `bytes` travel as: one at least.
std::size_t messages_of(std::size_t bytes);

/// Bytes of which their receiver knows no more than that they are `most` at most: one message, or if `most` is more
/// than kMessageBytes their number (u64, little-endian) and then messages of that many. What is to be sent, in order;
/// the bytes and `length`, which is their number, outlive the transfers.
std::vector<Slice<const std::byte>> messages_with_length(Slice<const std::byte> bytes, std::size_t most,
                                                         const std::uint64_t& length);

/// The other side: such bytes on their way from a rank into a room of `most` bytes. Its first receive is posted at
/// once; nothing else may be received from that rank before all has come.
class Incoming {
 public:
  Incoming(Communicator& comm, int from, Slice<std::byte> room);
  ~Incoming() {
    if (!done_) comm_.cancel();  // messages on their way would come to memory that is gone
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  /// Waits for the length, and posts the receives of all.   throws  CommError if it is more than there is room for
  Task<> begins();
  /// Waits for all.   returns  how many bytes came   throws  CommError, also if they are not as many as announced
  Task<std::size_t> arrives();
  std::size_t length_bytes() const {
    return has_length() ? sizeof length_ : 0;
  }  ///< bytes of the length that came before

 private:
  bool has_length() const { return room_.size() > kMessageBytes; }

  Communicator& comm_;
  const int from_;
  const Slice<std::byte> room_;
  std::uint64_t length_ = 0;
  Transfer first_;
  std::vector<Transfer> coming_;
  bool begun_ = false, done_ = false;
};

/// body(channel, j) for every piece j of `count`. Pieces j, j + kChannels, j + 2 kChannels ... follow one another on
/// one channel, which bounds the memory for messages; the channels run beside each other.
///   cannot deadlock: of the pieces unfinished somewhere let j be the first. All before it are finished everywhere, so
///   every rank has begun it, and it ends as it would alone. Hence ranks need not agree on anything but `count`.
///   throws the first error of a piece; the others are ended with the same.
Task<> in_pieces(Communicator& comm, int count, std::function<Task<>(Communicator&, int)> body);

}  // namespace laconic::dist
