#pragma once
#include "dist/collective/reduce.h"

namespace laconic::dist {

/// The ring of ring_allreduce.h and nothing else: no pieces, no receives ahead, no codec. For readers, and as an
/// oracle: the real one gives the same bits.   x : of any length, becomes the sum over ranks
inline Task<> plain_ring(Communicator& comm, Slice<float> x) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  std::vector<float> inbox(x.size());
  for (int s = 0; s < N - 1; ++s) {  // reduce-scatter: block b starts at rank b, one addend per hop
    const Slice<float> out = block_of(x, r - s, N), mine = block_of(x, r - s - 1, N);
    const Slice<float> theirs = slice(inbox).first(mine.size());
    co_await exchange(comm, right, out, left, theirs);
    add_in_place(mine, theirs);
  }
  for (int s = 0; s < N - 1; ++s) {  // allgather: rank r begins with the finished block r + 1
    const Slice<float> out = block_of(x, r - s + 1, N), in = block_of(x, r - s, N);
    co_await exchange(comm, right, out, left, in);
  }
}

}  // namespace laconic::dist
