#include "dist/collective/pieces.h"

#include <atomic>
#include <cmath>
#include <random>

#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/ring_allreduce.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

std::vector<float> values_of(int rank, std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(77 + rank));
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

std::vector<float> ring_in(int N, std::size_t n, int pieces) {
  std::vector<std::vector<float>> x(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    std::vector<float>& mine = x[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
    w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(mine), pieces); });
    const Cost cost = ring_allreduce_cost(N, 4.0 * static_cast<double>(n), pieces);
    EXPECT_EQ(static_cast<double>(w.engine.counters().sent.messages), cost.messages);
  });
  for (int r = 1; r < N; ++r) EXPECT_TRUE(same_bits(x[static_cast<std::size_t>(r)], x[0])) << "rank " << r;
  return x[0];
}

TEST(Pieces, AnyNumberOfThemGivesTheSameBits) {
  for (const int N : kRanks)
    for (std::size_t n : {std::size_t{0}, std::size_t{7}, std::size_t{1003}}) {
      const std::vector<float> whole = ring_in(N, n, 1);
      for (int P : {2, 3, 8, 9, 40})
        EXPECT_TRUE(same_bits(ring_in(N, n, P), whole)) << N << " ranks, " << n << " in " << P;
    }
}

TEST(Pieces, AreOfAQuarterMebibyteUnlessMessagesWouldBeTiny) {
  EXPECT_EQ(pieces_of(0, 4), 1);
  EXPECT_EQ(pieces_of(256 << 10, 4), 1);
  EXPECT_EQ(pieces_of((256 << 10) + 1, 4), 2);
  EXPECT_EQ(pieces_of(64 << 20, 4), 256);
  EXPECT_EQ(pieces_of(64 << 20, 64), 16);
}

TEST(Pieces, OfTheDefaultSizeGiveTheSameBitsAsOne) {
  const std::size_t n = 1'000'003;  // 16 pieces
  for (int N : {2, 3, 4}) {
    const std::vector<float> whole = ring_in(N, n, 1);
    EXPECT_TRUE(same_bits(ring_in(N, n, 0), whole)) << N << " ranks";
  }
}

TEST(Pieces, BoundTheMemoryForMessages) {
  on_ranks(4, [&](Worker& w) {
    std::vector<float> x(4 << 20, 1.0f);  // 16 MiB
    w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(x)); });
    EXPECT_EQ(x[12345], 4.0f);
    EXPECT_GE(w.engine.counters().peak_buffer_bytes, 8 * 3u << 16);
    EXPECT_LE(w.engine.counters().peak_buffer_bytes, (8 * 3u << 16) + 1024);
  });
}

TEST(Pieces, AnErrorInOneEndsTheOperationAndNotTheEngine) {
  on_ranks(3, [&](Worker& w) {
    std::vector<float> x(3000, 1.0f);
    const int slot = w.engine.reserve_slots(1);
    const Ticket ticket = w.engine.submit({.name = "bad", .slot = slot, .priority = 0, .body = [&](Communicator& comm) {
                                             return in_pieces(comm, 20, [&](Communicator& channel, int j) -> Task<> {
                                               if (j == 9) throw DataError("piece 9 is torn");
                                               const Slice<float> mine = slice(x).part(static_cast<std::size_t>(j), 20);
                                               co_await ring_allreduce(channel, mine, 1);
                                             });
                                           }});
    EXPECT_THROW(w.engine.wait(ticket), DataError);
    std::vector<float> y(10, 1.0f);
    w.engine.run("after it", [&](Communicator& comm) { return ring_allreduce(comm, slice(y)); });
    EXPECT_EQ(y[9], 3.0f);
  });
}

TEST(Butterfly, CutsLargeMessagesAsItsCostSays) {
  const std::size_t n = 300'007;  // 1.2 MB: five messages whole, three for a half
  for (int N : {2, 3, 4, 5}) {
    std::vector<std::vector<float>> x(static_cast<std::size_t>(N));
    std::vector<std::vector<float>> inputs;
    for (int r = 0; r < N; ++r) inputs.push_back(values_of(r, n));
    std::atomic<std::uint64_t> messages{0};
    on_ranks(N, [&](Worker& w) {
      std::vector<float>& mine = x[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
      w.engine.run("butterfly", [&](Communicator& comm) { return butterfly_allreduce(comm, slice(mine)); });
      messages += w.engine.counters().sent.messages;
    });
    for (std::size_t i = 0; i < n; i += 1001) {
      double sum = 0, scale = 0;
      for (int r = 0; r < N; ++r) {
        const double v = inputs[static_cast<std::size_t>(r)][i];
        sum += v, scale += std::abs(v);
      }
      ASSERT_NEAR(x[0][i], sum, 1e-6 * scale);
    }
    for (int r = 1; r < N; ++r) EXPECT_TRUE(same_bits(x[static_cast<std::size_t>(r)], x[0])) << "rank " << r;
    EXPECT_EQ(static_cast<double>(messages), butterfly_allreduce_cost(N, 4.0 * n).all_messages) << N << " ranks";
  }
}

}  // namespace
}  // namespace laconic::dist
