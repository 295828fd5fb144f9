#include "dist/collective/hop.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/stream.h"
#include "dist/collective/reduce.h"

namespace laconic::dist {

double wire_bytes(const compress::Codec* codec, double bytes, int blocks) {
  if (codec == nullptr) return bytes;
  const auto elements = static_cast<std::size_t>(std::llround(bytes / sizeof(float)));
  const auto n = static_cast<std::size_t>(blocks), base = elements / n, longer = elements % n;
  const double of_longer = longer > 0 ? codec->expected_bytes(base + 1) : 0;
  return static_cast<double>(longer) * of_longer + static_cast<double>(n - longer) * codec->expected_bytes(base);
}

Hop::Hop(Endpoint& comm, const Hops& hops, std::size_t most_elements, Device device)
    : comm_(comm), hops_(hops), out_(device), in_(device), next_(device) {
  if (hops_.codec == nullptr) return;
  hops_.codec = codec_for(device, hops_.codec, ghosts_);
  room_ = hops_.codec->max_bytes(most_elements);
  out_.reserve(room_);
  in_.reserve(room_);
  comm_.count_buffer(2 * static_cast<std::ptrdiff_t>(room_));
}

Hop::~Hop() {
  comm_.cancel();  // nothing may be under way when the buffers go
  comm_.count_buffer((next_.data() ? -3 : -2) * static_cast<std::ptrdiff_t>(room_));
}

compress::Key Hop::key_of(int hop, int rank) const {
  compress::Key key = hops_.key;
  key.hop += static_cast<std::uint32_t>(hop);
  key.rank += static_cast<std::uint32_t>(rank);
  return key;
}

void Hop::encode(Slice<float> x, int hop, int rank, bool alike, bool settle) {
  plain_ = x;
  if (hops_.codec == nullptr) return;
  const compress::Key key = key_of(hop, rank);
  compress::require_sendable(*hops_.codec, x, key);
  out_.clear();
  if (hops_.lost.empty() || alike)
    return settle ? hops_.codec->encode_and_decode(x, key, out_, x) : hops_.codec->encode(x, key, out_);
  hops_.codec->encode_with_feedback(x, lost_of(x), key, out_, settle);
}

Slice<float> Hop::lost_of(Slice<float> x) const {
  return hops_.lost.sub(static_cast<std::size_t>(x.data() - hops_.of), x.size());
}

void Hop::decode(int from, Slice<float> x, bool add) const {
  reading([&] { add ? hops_.codec->decode_add(in_.slice(), x) : hops_.codec->decode(in_.slice(), x); }, "rank ",
          comm_.rank(), ": what rank ", from, " sent");
}

Task<> Hop::take(int from) {
  in_.resize(room_);
  const Slice<std::byte> in = in_.slice();
  const std::size_t came = co_await comm_.recv(from, in);
  in_.resize(came);
}

template <class F>
Task<> Hop::swap_payloads(int to, int from, F read) {
  in_.resize(room_);
  const Transfer receiving = comm_.recv(from, in_.slice());
  const Transfer sending = comm_.send(to, out_.slice());
  const std::size_t came = co_await receiving;
  in_.resize(came);
  read();  // ~Hop cancels the other if this throws
  co_await sending;
}

Task<> Hop::swap(int to, int from, Slice<float> x) {
  if (hops_.codec == nullptr) return exchange(comm_, to, plain_, from, x);
  return swap_payloads(to, from, [this, from, x] { decode(from, x, false); });
}

Task<> Hop::swap_add(int to, int from, Slice<float> x) {
  return swap_payloads(to, from, [this, from, x] { decode(from, x, true); });
}

Task<> Hop::swap_add_load(int to, int from, Slice<float> x, int hop, int rank) {
  if (!hops_.lost.empty() || hops_.codec->largest() < std::numeric_limits<float>::max()) {  // the sum is looked at
    co_await swap_add(to, from, x);
    load(x, hop, rank);
    co_return;
  }
  if (next_.data() == nullptr && room_ > 0) {
    next_.reserve(room_);
    comm_.count_buffer(static_cast<std::ptrdiff_t>(room_));
  }
  next_.clear();
  const compress::Key key = key_of(hop, rank);
  const auto pass_on = [&] {
    reading([&] { hops_.codec->decode_add_encode(in_.slice(), x, key, next_); }, "rank ", comm_.rank(), ": what rank ",
            from, " sent");
  };
  co_await swap_payloads(to, from, pass_on);
  std::swap(out_, next_);
}

Task<> Hop::send(int to) {
  const Slice<std::byte> out = hops_.codec == nullptr ? plain_.bytes() : out_.slice();
  co_await comm_.send(to, out);
}

Task<> Hop::recv(int from, Slice<float> x) {
  if (hops_.codec == nullptr) {
    co_await recv_exactly(comm_, from, x.bytes());
    co_return;
  }
  co_await take(from);
  decode(from, x, false);
}

Task<> Hop::recv_add(int from, Slice<float> x, Slice<float> inbox) {
  if (hops_.codec == nullptr) {
    const Slice<float> theirs = inbox.first(x.size());
    co_await recv_exactly(comm_, from, theirs.bytes());
    add_in_place(x, theirs);
    co_return;
  }
  co_await take(from);
  decode(from, x, true);
}

void Hop::read(Slice<const std::byte> payload, int from, Slice<float> x) {
  in_.resize(payload.size());  // in aligned memory
  copy_bytes(in_.data(), in_.device(), payload.data(), payload.device(), payload.size());
  decode(from, x, false);
}

void Hop::forward(Slice<float> x) {
  plain_ = x;
  std::swap(out_, in_);
}

void Hop::keep(compress::Bytes& copy) const {
  copy = compress::Bytes(out_.device());
  if (out_.size() == 0) return;
  const Slice<std::byte> to = copy.append(out_.size());
  copy_bytes(to.data(), to.device(), out_.data(), out_.device(), out_.size());
}

}  // namespace laconic::dist
