#include "dist/collective/meeting.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

constexpr std::uint64_t kMaxBlobBytes = std::uint64_t{1} << 30;

Slice<std::byte> bytes_of(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), text.size()}; }

void require_blob(int from, std::uint64_t bytes) {
  require<CommError>(bytes <= kMaxBlobBytes, "rank ", from, " announces ", bytes,
                     " bytes, more than 1 GiB. Do all ranks run the same program?");
}

Task<> broadcast_whole(Communicator& comm, Slice<std::byte> bytes, int root) {
  const int N = comm.size();
  const int v = (comm.rank() - root + N) % N;  // counted from the root
  int reach = 1;                               // ranks that have the data once this one has it
  if (v > 0) {
    reach = 2 * static_cast<int>(std::bit_floor(static_cast<unsigned>(v)));
    const int from = (v - reach / 2 + root) % N;
    co_await recv_exactly(comm, from, bytes);
  }
  for (; v + reach < N; reach *= 2) {
    const int to = (v + reach + root) % N;
    co_await comm.send(to, bytes);
  }
}

}  // namespace

Task<> barrier(Communicator& comm) {
  const int N = comm.size(), r = comm.rank();
  const Slice<std::byte> nothing;
  for (int step = 1; step < N; step *= 2) {
    const int to = (r + step) % N, from = (r - step + N) % N;
    co_await exchange(comm, to, nothing, from, nothing);
  }
}

Task<> broadcast(Communicator& comm, Slice<std::byte> bytes, int root, std::size_t largest) {
  for (std::size_t begin = 0; begin == 0 || begin < bytes.size(); begin += largest)
    co_await broadcast_whole(comm, bytes.sub(begin, std::min(largest, bytes.size() - begin)), root);
}

Task<> allgather_blobs(Communicator& comm, const std::string& mine, std::vector<std::string>& all) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  const auto at = [&](int b) { return static_cast<std::size_t>((b + N) % N); };
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(N));
  lengths[at(r)] = mine.size();
  all.assign(static_cast<std::size_t>(N), {});
  all[at(r)] = mine;

  const Slice<std::uint64_t> length = slice(lengths);
  for (int s = 0; s < N - 1; ++s) {
    const Slice<std::uint64_t> out = length.sub(at(r - s), 1), in = length.sub(at(r - s - 1), 1);
    co_await exchange(comm, right, out, left, in);
    require_blob(left, in[0]);
  }
  for (int s = 0; s < N - 1; ++s) {
    std::string& blob = all[at(r - s - 1)];
    blob.resize(lengths[at(r - s - 1)]);
    const Slice<std::byte> out = bytes_of(all[at(r - s)]), in = bytes_of(blob);
    co_await exchange(comm, right, out, left, in);
  }
}

Task<> gather_blobs(Communicator& comm, const std::string& mine, std::vector<std::string>& all) {
  all.clear();
  std::vector<std::uint64_t> length{mine.size()};
  if (comm.rank() != 0) {
    co_await comm.send(0, slice(length).bytes());
    co_await comm.send(0, {reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
    co_return;
  }
  all.resize(static_cast<std::size_t>(comm.size()));
  all[0] = mine;
  for (int from = 1; from < comm.size(); ++from) {
    co_await recv_exactly(comm, from, slice(length).bytes());
    require_blob(from, length[0]);
    std::string& blob = all[static_cast<std::size_t>(from)];
    blob.resize(length[0]);
    co_await recv_exactly(comm, from, bytes_of(blob));
  }
}

Task<> sum_over_ranks(Communicator& comm, Slice<double> x) {
  std::vector<std::vector<double>> all;
  co_await sum_over_ranks(comm, x, all);
}

Task<> sum_over_ranks(Communicator& comm, Slice<double> x, std::vector<std::vector<double>>& all) {
  const std::string mine(reinterpret_cast<const char*>(x.data()), x.size_bytes());
  std::vector<std::string> blobs;
  co_await allgather_blobs(comm, mine, blobs);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0;
  all.assign(blobs.size(), std::vector<double>(x.size()));
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    require<CommError>(blobs[r].size() == x.size_bytes(), "sum_over_ranks: ", blobs[r].size(), " bytes came where ",
                       x.size_bytes(), " were expected. Do all ranks run the same program?");
    std::memcpy(all[r].data(), blobs[r].data(), x.size_bytes());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += all[r][i];
  }
}

}  // namespace laconic::dist
