#pragma once
#include "core/error.h"
#include "dist/communicator.h"

namespace laconic::dist {

/// sum[i] += addend[i]. Both of the same length, on the same device; a slice without memory is left alone.
void add_in_place(Slice<float> sum, Slice<const float> addend);

/// Awaits a receive of exactly `bytes`. Throws CommError if something else came: then the ranks run different programs.
inline Task<> all_of(Communicator& comm, Transfer receiving, int from, std::size_t bytes) {
  const std::size_t came = co_await receiving;
  require<CommError>(came == bytes, "rank ", comm.rank(), " expected ", bytes, " bytes from rank ", from, " but ", came,
                     " came. Do all ranks run the same model and options?");
}

/// Receives exactly `in` from a rank. Throws CommError as above.
inline Task<> recv_exactly(Communicator& comm, int from, Slice<std::byte> in) {
  const Transfer receiving = comm.recv(from, in);
  co_await all_of(comm, receiving, from, in.size());
}

/// Sends `out` to one rank while receiving exactly `in` from another (or the same) one. Throws CommError as above.
template <class T>
Task<> exchange(Communicator& comm, int to, Slice<T> out, int from, Slice<T> in) {
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
