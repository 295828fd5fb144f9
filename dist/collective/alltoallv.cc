#include "dist/collective/alltoallv.h"

#include <cstring>

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

  std::vector<Transfer> receiving, sending;
  try {
    for (int s = 1; s < N; ++s)
      receiving.push_back(comm.recv(static_cast<int>(at(r - s)), room.sub(at(r - s) * most_bytes, most_bytes)));
    for (int s = 1; s < N; ++s) sending.push_back(comm.send(static_cast<int>(at(r + s)), parts[at(r + s)].slice()));
    for (int s = 1; s < N; ++s) {
      const std::size_t came = co_await receiving[static_cast<std::size_t>(s - 1)];
      all.note(static_cast<int>(at(r - s)), at(r - s) * most_bytes, came);
    }
    for (const Transfer& transfer : sending) co_await transfer;
  } catch (...) {
    comm.cancel();  // the other transfers must not outlive the caller's memory
    throw;
  }
}

}  // namespace laconic::dist
