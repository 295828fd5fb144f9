#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/codec.h"
#include "dist/collective/pieces.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {

/// How one way of a bucket travels, up to its server or down to the workers: in pieces of 256 KiB, so that what is more
/// urgent overtakes it and adding goes on while the next piece is on its way; as they are, or each through a codec.
/// Where pieces are cut changes no bit of plain floats.
struct Leg {
  const compress::Codec* codec = nullptr;  ///< null: plain floats. Outlives the operation
  compress::Key key{};                     ///< seed, step, operation, rank; its hop counts pieces
  /// Grows by the bytes that pass between this rank and others; what stays on it does not count. Null: nobody counts.
  std::atomic<std::uint64_t>* moved = nullptr;
  /// With a codec: becomes what receivers will decode. It may be the memory that is sent. Empty: not needed.
  Slice<float> decoded{};
};
inline constexpr std::size_t kPieceElements = kMessageBytes / sizeof(float);

/// Both ways of all buckets; equal on all ranks. The server's own values are never rounded: what passes through a codec
/// on the way down are copies.
struct Legs {
  std::shared_ptr<const compress::Codec> up{};    ///< the gradients' codec; null: plain floats
  std::shared_ptr<const compress::Codec> down{};  ///< the parameters' codec
  /// Error feedback on the way up: what a worker's encoding loses it adds to what it sends next.
  bool keeps_losses = false;
  /// And on the way down: in place of parameters their distance from what the workers hold travels, so that what was
  /// lost is in the next one.
  bool differences = false;
  bool rounds_down = false;  ///< workers hold other values than the servers
  std::uint64_t seed = 0;
  /// The most elements that are pushed at once; larger buckets wait until their server says so (turns.h). Where the
  /// codec shares scales each waits for its answer, which has the largest.
  std::int64_t without_turn = 8 << 10;
  bool is_large(std::int64_t elements) const { return elements > without_turn; }
  bool takes_turn(std::int64_t elements) const { return is_large(elements) || (up && up->shares_scale()); }

  /// The keys name worker, bucket and step, never the server: which rank serves changes no bit.
  Leg upward(std::size_t bucket, std::int64_t step, int worker, std::atomic<std::uint64_t>* moved = nullptr) const {
    return {up.get(), key(bucket, step, 0, static_cast<std::uint32_t>(worker)), moved};
  }
  Leg downward(std::size_t bucket, std::int64_t step, std::atomic<std::uint64_t>* moved = nullptr) const {
    return {down.get(), key(bucket, step, 1u << 31, 0), moved};
  }

 private:
  compress::Key key(std::size_t bucket, std::int64_t step, std::uint32_t hop, std::uint32_t rank) const {
    return {seed, static_cast<std::uint64_t>(step), static_cast<std::uint32_t>(bucket), hop, rank};
  }
};

/// x to each of these ranks: encoded once, so that all of them read the same. Throws OutOfRange where the codec cannot
/// send a value.
Task<> send_floats(Communicator& comm, const std::vector<int>& ranks, Slice<const float> x, Leg leg);

/// Receives what a rank sends by send_floats. throws CommError if something else comes
Task<> recv_floats(Communicator& comm, int from, Slice<float> x, Leg leg);

/// x = what ranks[0] sends by send_floats, plus what ranks[1] sends, ...: added in this order, whatever comes first, so
/// that the bits are the naive sum's. A part that is early waits in its receive buffer.
///   memory   one piece for each rank but the first; through a codec for each rank, and one more
///   throws   CommError if something else comes
Task<> recv_sum(Communicator& comm, const std::vector<int>& ranks, Slice<float> x, Leg leg);

/// Bytes of memory that send_floats takes for `elements`, and recv_sum of `ranks`.
std::size_t room_to_send(const compress::Codec* codec, std::size_t elements);
std::size_t room_to_receive(const compress::Codec* codec, std::size_t elements, std::size_t ranks);

/// Expected bytes of `elements` on a leg.
double leg_bytes(const compress::Codec* codec, std::size_t elements);

/// Bytes as they are to each of these ranks: one message.
Task<> send_bytes(Communicator& comm, const std::vector<int>& ranks, Slice<const std::byte> bytes, Leg leg);

/// Bytes of which the receivers know that they are `most` at most: each receives them by an Incoming
/// (collective/pieces.h).
Task<> send_message(Communicator& comm, const std::vector<int>& ranks, Slice<const std::byte> bytes, std::size_t most,
                    Leg leg);

/// A few bytes ahead of a leg whose length varies: as bytes, little-endian, no padding.
template <class Header>
Task<> send_header(Communicator& comm, int to, Header header, Leg leg) {
  const std::vector<int> one{to};
  const Slice<const std::byte> bytes = Slice<const Header>(&header, 1).bytes();
  co_await send_bytes(comm, one, bytes, leg);
}
/// throws CommError if something else comes
template <class Header>
Task<Header> recv_header(Communicator& comm, int from, Leg leg) {
  Header header{};
  const Slice<std::byte> room = Slice<Header>(&header, 1).bytes();
  try {
    co_await recv_exactly(comm, from, room);
  } catch (...) {
    comm.cancel();  // the header lives in this frame
    throw;
  }
  if (leg.moved != nullptr && from != comm.rank()) *leg.moved += sizeof header;
  co_return header;
}

}  // namespace laconic::dist
