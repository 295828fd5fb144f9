// Collectives that leave parts: reduce-scatter, allgather.
#include <cmath>

#include "dist/collective/allreduce.h"
#include "dist/collective/ring_halves.h"
#include "tests/collective_costs.h"
#include "tests/on_ranks.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

const std::size_t kLengths[] = {0, 1, 7, 8, 1000, 1003};

struct Sums {
  std::vector<double> sum, scale;
};
Sums naive_sums(int N, std::size_t n) {
  Sums s{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0)};
  for (int r = 0; r < N; ++r) {
    const auto x = values_of(r, n);
    for (std::size_t i = 0; i < n; ++i) s.sum[i] += x[i], s.scale[i] += std::abs(x[i]);
  }
  return s;
}

/// All ranks together. Ranks of the test add theirs.
struct Total {
  std::atomic<std::uint64_t> messages{0}, bytes{0};
  void add(const Traffic& t) { messages += t.messages, bytes += t.bytes; }
  void expect(const Cost& cost) const {
    EXPECT_EQ(static_cast<double>(messages.load()), cost.all_messages);
    EXPECT_NEAR(static_cast<double>(bytes.load()), cost.all_bytes, 1e-6);
  }
};

TEST(ReduceScatter, LeavesTheNaiveSumOfItsOwnBlockOnEveryRankAndSendsWhatItsCostSays) {
  for (const int N : kRanks)
    for (std::size_t n : kLengths) {
      const Sums oracle = naive_sums(N, n);
      Total total;
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x = values_of(w.rank, n);
        w.engine.run("reduce-scatter", [&](Communicator& comm) { return reduce_scatter(comm, slice(x)); });
        const Slice<float> mine = slice(x).part(static_cast<std::size_t>(w.rank), static_cast<std::size_t>(N));
        for (const float& v : mine) {
          const auto i = static_cast<std::size_t>(&v - x.data());
          EXPECT_NEAR(v, oracle.sum[i], 1e-6 * oracle.scale[i]) << N << " ranks, element " << i << " of " << n;
        }
        const Traffic sent = w.engine.counters().sent;
        EXPECT_EQ(static_cast<double>(sent.messages), reduce_scatter_cost(N, 4.0 * static_cast<double>(n)).messages);
        total.add(sent);
      });
      total.expect(reduce_scatter_cost(N, 4.0 * static_cast<double>(n)));
    }
}

TEST(Allgather, GivesEveryRankEveryBlockAndSendsWhatItsCostSays) {
  for (const int N : kRanks)
    for (std::size_t n : kLengths) {
      const std::vector<float> whole = values_of(77, n);
      const Cost cost = ring_allgather_cost(N, 4.0 * static_cast<double>(n));
      Total total;
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x(n, -1.0f);
        const auto r = static_cast<std::size_t>(w.rank), parts = static_cast<std::size_t>(N);
        const Slice<float> mine = slice(x).part(r, parts);
        for (float& v : mine) v = whole[static_cast<std::size_t>(&v - x.data())];
        w.engine.run("allgather", [&](Communicator& comm) { return ring_allgather(comm, slice(x)); });
        EXPECT_TRUE(same_bits(x, whole)) << N << " ranks, " << n;
        const Traffic sent = w.engine.counters().sent;
        EXPECT_EQ(static_cast<double>(sent.messages), cost.messages);
        total.add(sent);
      });
      total.expect(cost);
    }
}

}  // namespace
}  // namespace laconic::dist
