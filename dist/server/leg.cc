#include "dist/server/leg.h"

#include <algorithm>

#include "core/dispatch.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

std::size_t pieces_in(std::size_t elements) { return (elements + kPieceElements - 1) / kPieceElements; }

template <class T>
Slice<T> piece(Slice<T> x, std::size_t i) {
  const std::size_t from = i * kPieceElements;
  return x.sub(from, std::min(kPieceElements, x.size() - from));
}

/// Room for one piece on its way.
std::size_t room_for(const compress::Codec* codec, std::size_t elements) {
  const std::size_t longest = std::min(elements, kPieceElements);
  return codec == nullptr ? longest * sizeof(float) : codec->max_bytes(longest);
}

/// Ranks whose parts wait in a buffer: without a codec the first comes straight to its place.
std::size_t buffered(const compress::Codec* codec, std::size_t ranks) {
  return codec == nullptr && ranks > 0 ? ranks - 1 : ranks;
}

/// Elements that are decoded before they are added: none of the first rank's.
std::size_t decoded_apart(const compress::Codec* codec, std::size_t elements, std::size_t ranks) {
  return codec == nullptr || ranks < 2 ? 0 : std::min(elements, kPieceElements);
}

void decode(const Leg& leg, Slice<const std::byte> payload, Slice<float> x, int from) {
  reading([&] { leg.codec->decode(payload, x); }, "server: what rank ", from, " sent for ", x.size(), " elements");
}

/// Each of these parts to each of these ranks.
Task<> send_parts(Communicator& comm, const std::vector<int>& ranks, const std::vector<Slice<const std::byte>>& parts,
                  std::atomic<std::uint64_t>* moved) {
  try {
    std::vector<Transfer> sending;
    for (const Slice<const std::byte>& part : parts)
      for (const int to : ranks) {
        if (moved != nullptr && to != comm.rank()) *moved += part.size();
        sending.push_back(comm.send(to, part));
      }
    for (const Transfer& transfer : sending) co_await transfer;
  } catch (...) {
    comm.cancel();  // nothing under way may outlive the parts
    throw;
  }
}

}  // namespace

Task<> send_floats(Communicator& comm, const std::vector<int>& ranks, Slice<const float> x, Leg leg) {
  const std::size_t count = pieces_in(x.size());
  std::optional<GhostCodec> ghost;
  leg.codec = codec_for(x.device(), leg.codec, ghost);
  compress::Bytes payload(x.device());
  std::vector<Slice<const std::byte>> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(piece(x, i).bytes());
  if (leg.codec != nullptr) {
    payload.reserve(room_to_send(leg.codec, x.size()));  // addresses stay
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = payload.size();
      compress::Key key = leg.key;
      key.hop += static_cast<std::uint32_t>(i);
      compress::require_sendable(*leg.codec, piece(x, i), key);
      if (leg.decoded.empty())
        leg.codec->encode(piece(x, i), key, payload);
      else
        leg.codec->encode_and_decode(piece(x, i), key, payload, piece(leg.decoded, i));
      parts[i] = payload.slice().sub(begin, payload.size() - begin);
    }
    comm.count_buffer(static_cast<std::ptrdiff_t>(payload.size()));
  }
  co_await send_parts(comm, ranks, parts, leg.moved);
  comm.count_buffer(-static_cast<std::ptrdiff_t>(payload.size()));
}

std::size_t room_to_send(const compress::Codec* codec, std::size_t elements) {
  return codec == nullptr ? 0 : pieces_in(elements) * room_for(codec, elements);
}

std::size_t room_to_receive(const compress::Codec* codec, std::size_t elements, std::size_t ranks) {
  return buffered(codec, ranks) * room_for(codec, elements) + decoded_apart(codec, elements, ranks) * sizeof(float);
}

double leg_bytes(const compress::Codec* codec, std::size_t elements) {
  if (codec == nullptr) return static_cast<double>(elements) * sizeof(float);
  const std::size_t rest = elements % kPieceElements;
  return static_cast<double>(elements / kPieceElements) * codec->expected_bytes(kPieceElements) +
         (rest > 0 ? codec->expected_bytes(rest) : 0);
}

Task<> send_bytes(Communicator& comm, const std::vector<int>& ranks, Slice<const std::byte> bytes, Leg leg) {
  const std::vector<Slice<const std::byte>> parts{bytes};
  co_await send_parts(comm, ranks, parts, leg.moved);
}

Task<> send_message(Communicator& comm, const std::vector<int>& ranks, Slice<const std::byte> bytes, std::size_t most,
                    Leg leg) {
  const auto length = static_cast<std::uint64_t>(bytes.size());
  const std::vector<Slice<const std::byte>> parts = messages_with_length(bytes, most, length);
  co_await send_parts(comm, ranks, parts, leg.moved);
}

Task<> recv_floats(Communicator& comm, int from, Slice<float> x, Leg leg) {
  const std::vector<int> one{from};
  co_await recv_sum(comm, one, x, leg);
}

Task<> recv_sum(Communicator& comm, const std::vector<int>& ranks, Slice<float> x, Leg leg) {
  const std::size_t count = pieces_in(x.size());
  std::optional<GhostCodec> ghost;
  leg.codec = codec_for(x.device(), leg.codec, ghost);
  if (ranks.empty() || count == 0) co_return;
  const std::size_t room = room_for(leg.codec, x.size()), in_place = ranks.size() - buffered(leg.codec, ranks.size());
  const Scratch<std::byte> inboxes(comm, (ranks.size() - in_place) * room, x.device());
  const Scratch<float> decoded(comm, decoded_apart(leg.codec, x.size(), ranks.size()), x.device());
  const auto inbox = [&](std::size_t r) { return inboxes.slice().sub((r - in_place) * room, room); };
  const auto post = [&](std::size_t r, std::size_t i) {
    if (leg.codec != nullptr) return comm.recv(ranks[r], inbox(r));
    const Slice<float> here = piece(x, i);
    return comm.recv(ranks[r], r == 0 ? here.bytes() : inbox(r).first(here.size_bytes()));
  };
  std::vector<Transfer> coming;
  for (std::size_t r = 0; r < ranks.size(); ++r) coming.push_back(post(r, 0));
  for (std::size_t i = 0; i < count; ++i) {
    const Slice<float> here = piece(x, i);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Transfer transfer = coming[r];
      const std::size_t came = co_await transfer;
      if (leg.moved != nullptr && ranks[r] != comm.rank()) *leg.moved += came;
      require<CommError>(leg.codec != nullptr || came == here.size_bytes(), "server: rank ", comm.rank(), " expected ",
                         here.size_bytes(), " bytes from rank ", ranks[r], " but ", came,
                         " came. Do all ranks run the same model and options?");
      if (leg.codec != nullptr) {
        const Slice<float> values = r == 0 ? here : decoded.first(here.size());
        decode(leg, inbox(r).first(came), values, ranks[r]);
        if (r > 0) add_in_place(here, values);
      } else if (r > 0) {
        add_in_place(here, values_in<float>(inbox(r).first(came)));
      }
      if (i + 1 < count) coming[r] = post(r, i + 1);
    }
  }
}

}  // namespace laconic::dist
