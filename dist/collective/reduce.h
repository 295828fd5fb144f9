#pragma once
#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/raw.h"
#include "dist/engine/communicator.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {

/// sum[i] += addend[i]. Both of the same length, on the same device. For ghosts it tells GhostWork.
inline void add_in_place(Slice<float> sum, Slice<const float> addend) {
  if (sum.device() == kGhost) [[unlikely]]
    return GhostWork::tell(Work::adding, sum.size_bytes());
  raw::add_into(sum, addend);
}

/// The b-th of N nearly equal blocks, counted round: -1 is the last. b >= -2N.
inline Slice<float> block_of(Slice<float> x, int b, int N) {
  return x.part(static_cast<std::size_t>((b + 2 * N) % N), static_cast<std::size_t>(N));
}

/// The ranks that work in an algorithm for powers of two. Let p be the largest one in N, and N = p + e. The first 2e
/// ranks form pairs, and the even rank of each pair sits out. The p that are left are numbered without gaps.
struct PowerOfTwo {
  explicit PowerOfTwo(const Endpoint& comm)
      : p(static_cast<int>(std::bit_floor(static_cast<unsigned>(comm.size())))),
        extra(comm.size() - p),
        paired(comm.rank() < 2 * extra),
        sits_out(paired && comm.rank() % 2 == 0),
        v(paired ? comm.rank() / 2 : comm.rank() - extra) {}
  int rank_of(int w) const { return w < extra ? 2 * w + 1 : w + extra; }

  const int p, extra;
  const bool paired, sits_out;
  const int v;  // own number, unless it sits out
};

/// Awaits a receive of exactly `bytes`. Throws CommError if something else came: then the ranks run different programs.
inline Task<> all_of(Endpoint& comm, Transfer receiving, int from, std::size_t bytes) {
  const std::size_t came = co_await receiving;
  require<CommError>(came == bytes, "rank ", comm.rank(), " expected ", bytes, " bytes from rank ", from, " but ", came,
                     " came. Do all ranks run the same model and options?");
}

/// Receives exactly `in` from a rank. Throws CommError as above.
inline Task<> recv_exactly(Endpoint& comm, int from, Slice<std::byte> in) {
  const Transfer receiving = comm.recv(from, in);
  co_await all_of(comm, receiving, from, in.size());
}

/// Sends `out` to one rank while receiving exactly `in` from another (or the same) one. Throws CommError as above.
template <class T>
Task<> exchange(Endpoint& comm, int to, Slice<T> out, int from, Slice<T> in) {
  const Transfer receiving = comm.recv(from, in.bytes());
  const Transfer sending = comm.send(to, out.bytes());
  try {
    co_await all_of(comm, receiving, from, in.size_bytes());
    co_await sending;
  } catch (...) {
    comm.cancel();  // the other transfer must not outlive the caller's memory
    throw;
  }
}

}  // namespace laconic::dist
