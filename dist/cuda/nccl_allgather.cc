#include "dist/cuda/nccl_allgather.h"

#include <vector>

#include "core/stream.h"

namespace laconic::dist {

void nccl_allgather(Nccl& nccl, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all) {
  constexpr std::size_t kAligned = 16;
  const int N = nccl.size(), r = nccl.rank();
  require<UsageError>(mine.size() <= most_bytes, "nccl_allgather: rank ", r, " gives ", mine.size(), " bytes where ",
                      most_bytes, " are the most. Raise most_bytes on all ranks.");
  require<Error>(all.device() == nccl.device(), "nccl_allgather: what comes is to lie on ", all.device(),
                 ", and NCCL is on ", nccl.device(), ".");
  const std::size_t stride = (most_bytes + kAligned - 1) / kAligned * kAligned;
  const Slice<std::byte> room = all.reset(N, stride);
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * stride; };
  std::vector<Nccl::Outgoing> out;
  std::vector<Nccl::Incoming> in;
  for (int s = 1; s < N; ++s) {
    const int to = (r + s) % N, from = (r + N - s) % N;
    out.push_back({to, mine});
    in.push_back({from, room.sub(place(from), most_bytes)});
  }
  nccl.exchange(out, in);
  for (const Nccl::Incoming& part : in) all.note(part.from, place(part.from), part.came);
  copy_bytes(room.data() + place(r), all.device(), mine.data(), mine.device(), mine.size());
  all.note(r, place(r), mine.size());
}

}  // namespace laconic::dist
