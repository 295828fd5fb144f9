#include "dist/collective/doubling_allgather.h"

#include <bit>
#include <cmath>

#include "dist/collective/reduce.h"
#include "dist/collective/ring_allgather.h"

namespace laconic::dist {

Task<> doubling_allgather(Communicator& comm, Slice<float> x) {
  const int N = comm.size(), r = comm.rank();
  if (!std::has_single_bit(static_cast<unsigned>(N))) {
    co_await ring_allgather(comm, x);
    co_return;
  }
  const auto blocks = [&](int first, int count) {
    const auto parts = static_cast<std::size_t>(N);
    const float* begin = x.part(static_cast<std::size_t>(first), parts).begin();
    const float* end = x.part(static_cast<std::size_t>(first + count - 1), parts).end();
    return x.sub(static_cast<std::size_t>(begin - x.data()), static_cast<std::size_t>(end - begin));
  };
  for (int have = 1; have < N; have *= 2) {
    const int partner = r ^ have;
    const Slice<float> out = blocks(r & ~(have - 1), have), in = blocks(partner & ~(have - 1), have);
    co_await exchange(comm, partner, out, partner, in);
  }
}

Cost doubling_allgather_cost(int N, double bytes) {
  if (!std::has_single_bit(static_cast<unsigned>(N))) return ring_allgather_cost(N, bytes);
  const double n = N, steps = std::log2(n);
  return {.messages = steps,
          .bytes = (n - 1) / n * bytes,
          .bytes_added = 0,
          .all_messages = n * steps,
          .all_bytes = (n - 1) * bytes};
}

}  // namespace laconic::dist
