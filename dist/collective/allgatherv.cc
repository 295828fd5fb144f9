#include "dist/collective/allgatherv.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <limits>

#include "core/stream.h"
#include "dist/collective/pieces.h"

namespace laconic::dist {

static_assert(std::endian::native == std::endian::little, "lengths travel as they lie in memory");

std::vector<Slice<const std::byte>> parts_of(Slice<const std::byte> message, int count, std::size_t most_bytes,
                                             int from) {
  std::vector<Slice<const std::byte>> parts;
  std::size_t at = 0;
  for (int i = 0; i < count; ++i) {
    require<CommError>(message.size() - at >= kPartHeader, "allgatherv: rank ", from, " sent ", message.size(),
                       " bytes, which end before part ", i + 1, " of ", count, ". Do all ranks run the same program?");
    std::uint32_t length;
    std::memcpy(&length, message.data() + at, kPartHeader);
    at += kPartHeader;
    require<CommError>(length <= most_bytes && length <= message.size() - at, "allgatherv: rank ", from, " sent part ",
                       i + 1, " of ", count, " with a length of ", length, " where ", message.size() - at,
                       " bytes follow and ", most_bytes, " are the most. Do all ranks run the same program?");
    parts.push_back(message.sub(at, length));
    at += length;
  }
  require<CommError>(at == message.size(), "allgatherv: rank ", from, " sent ", message.size() - at,
                     " bytes more than the ", count, " parts that were due. Do all ranks run the same program?");
  return parts;
}

Slice<std::byte> Gathered::reset(int N, std::size_t most_bytes) {
  parts_.assign(static_cast<std::size_t>(N), {});
  bytes_.clear();
  bytes_.resize(static_cast<std::size_t>(N) * most_bytes);
  capacity_ = std::max(capacity_, bytes_.size());
  return bytes_.slice();
}

void append_part(compress::Bytes& message, Slice<const std::byte> part) {
  const auto length = static_cast<std::uint32_t>(part.size());
  std::memcpy(message.append(kPartHeader).data(), &length, kPartHeader);
  if (length > 0) copy_bytes(message.append(length).data(), kCpu, part.data(), part.device(), length);
}

/// The parts that this rank holds so far, as they travel.
class Records {
 public:
  Records(Communicator& comm, std::size_t most_bytes, Gathered& all)
      : comm_(comm), most_bytes_(most_bytes), all_(all) {}
  ~Records() { comm_.cancel(); }  // the memory is the caller's
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  void start(Slice<const std::byte> mine) {
    require<UsageError>(most_bytes_ <= std::numeric_limits<std::uint32_t>::max(), "allgatherv: parts of up to ",
                        most_bytes_, " bytes: their length has 4 bytes. Cut them.");
    require<UsageError>(mine.size() <= most_bytes_, "allgatherv: rank ", comm_.rank(), " gives ", mine.size(),
                        " bytes where ", most_bytes_, " are the most. Raise most_bytes on all ranks.");
    require<Error>(all_.device().kind != Device::Kind::cuda, "allgatherv: parts come to host memory, not to ",
                   all_.device(), ".");
    all_.reset(comm_.size(), kPartHeader + most_bytes_);
    all_.bytes_.clear();
    append_part(all_.bytes_, mine);
    note(comm_.rank(), mine.size());
  }

  int count() const { return static_cast<int>(ends_.size()); }

  /// Sends parts [first, first + out), in the order in which they came, and appends `owners.size()` parts that come.
  Task<> exchange_parts(int to, int first, int out, int from, const std::vector<int>& owners) {
    const std::size_t begin = first == 0 ? 0 : ends_[static_cast<std::size_t>(first - 1)];
    const std::size_t end = ends_[static_cast<std::size_t>(first + out - 1)], had = all_.bytes_.size();
    const Slice<std::byte> inbox = all_.bytes_.append(owners.size() * (kPartHeader + most_bytes_));
    const Slice<const std::byte> outbox = all_.bytes_.slice().sub(begin, end - begin);
    const auto length = static_cast<std::uint64_t>(outbox.size());
    const std::size_t most = static_cast<std::size_t>(out) * (kPartHeader + most_bytes_);
    std::size_t came = 0;
    try {
      Incoming incoming(comm_, from, inbox);
      std::vector<Transfer> sending;
      for (const auto& message : messages_with_length(outbox, most, length)) sending.push_back(comm_.send(to, message));
      came = co_await incoming.arrives();
      for (const Transfer& transfer : sending) co_await transfer;
    } catch (...) {
      comm_.cancel();  // the length must not outlive this frame
      throw;
    }
    all_.bytes_.resize(had + came);
    const Slice<const std::byte> message = inbox.first(came);
    const auto parts = parts_of(message, static_cast<int>(owners.size()), most_bytes_, from);
    for (std::size_t i = 0; i < owners.size(); ++i) note(owners[i], parts[i].size());
  }

 private:
  void note(int owner, std::size_t length) {
    const std::size_t offset = (ends_.empty() ? 0 : ends_.back()) + kPartHeader;
    all_.note(owner, offset, length);
    ends_.push_back(offset + length);
  }

  Communicator& comm_;
  const std::size_t most_bytes_;
  Gathered& all_;
  std::vector<std::size_t> ends_;  // ends of the parts that came, in order
};

Task<> allgatherv(Communicator& comm, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all) {
  const int N = comm.size(), r = comm.rank();
  const bool pairs = std::has_single_bit(static_cast<unsigned>(N));
  Records records(comm, most_bytes, all);
  records.start(mine);
  for (int have = 1; have < N; have *= 2) {
    std::vector<int> owners;  // rank v's j-th part is owned by v ^ j, or v + j
    for (int j = have; j < std::min(2 * have, N); ++j) owners.push_back(pairs ? r ^ j : (r + j) % N);
    const int to = pairs ? r ^ have : (r - have + N) % N, from = owners[0], out = static_cast<int>(owners.size());
    co_await records.exchange_parts(to, 0, out, from, owners);
  }
}

Task<> ring_allgatherv(Communicator& comm, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  Records records(comm, most_bytes, all);
  records.start(mine);
  for (int s = 0; s < N - 1; ++s) {
    const std::vector<int> owner{(r - s - 1 + N) % N};
    co_await records.exchange_parts(right, s, 1, left, owner);
  }
}

Task<> alltoallv(Communicator& comm, const std::vector<compress::Bytes>& parts, std::size_t most_bytes, Gathered& all) {
  const int N = comm.size(), r = comm.rank();
  const auto at = [&](int rank) { return static_cast<std::size_t>((rank + N) % N); };
  require<UsageError>(parts.size() == static_cast<std::size_t>(N), "alltoallv: ", parts.size(), " parts for ", N,
                      " ranks. Give every rank one.");
  for (int d = 0; d < N; ++d)
    require<UsageError>(parts[at(d)].size() <= most_bytes, "alltoallv: rank ", r, " gives ", parts[at(d)].size(),
                        " bytes to rank ", d, " where ", most_bytes, " are the most. Raise most_bytes on all ranks.");
  require<Error>(all.device().kind != Device::Kind::cuda, "alltoallv: parts come to host memory, not to ", all.device(),
                 ".");
  const Slice<std::byte> room = all.reset(N, most_bytes);
  const Slice<const std::byte> own = parts[at(r)].slice();
  if (!own.empty()) std::memcpy(room.data() + at(r) * most_bytes, own.data(), own.size());
  all.note(r, at(r) * most_bytes, own.size());

  std::vector<std::uint64_t> lengths;
  for (const compress::Bytes& part : parts) lengths.push_back(part.size());
  try {
    std::deque<Incoming> incoming;  // what r - 1, r - 2, ... send
    std::vector<Transfer> sending;
    for (int s = 1; s < N; ++s)
      incoming.emplace_back(comm, static_cast<int>(at(r - s)), room.sub(at(r - s) * most_bytes, most_bytes));
    for (int s = 1; s < N; ++s)
      for (const auto& message : messages_with_length(parts[at(r + s)].slice(), most_bytes, lengths[at(r + s)]))
        sending.push_back(comm.send(static_cast<int>(at(r + s)), message));
    for (Incoming& each : incoming) co_await each.begins();
    for (int s = 1; s < N; ++s) {
      const std::size_t came = co_await incoming[static_cast<std::size_t>(s - 1)].arrives();
      all.note(static_cast<int>(at(r - s)), at(r - s) * most_bytes, came);
    }
    for (const Transfer& transfer : sending) co_await transfer;
  } catch (...) {
    comm.cancel();  // no transfer may outlive the caller's memory
    throw;
  }
}

}  // namespace laconic::dist
