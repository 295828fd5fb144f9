#include "dist/collective/alltoallv.h"

#include <cstring>
#include <deque>

#include "dist/collective/pieces.h"

namespace laconic::dist {

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
    std::deque<Incoming> incoming;  // from r - 1, r - 2, ...
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
