#include <cctype>
#include <cmath>

#include "compress/codecs.h"
#include "dist/collective/allreduce.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/collective/tree_allreduce.h"
#include "tests/collective_costs.h"
#include "tests/on_ranks.h"
#include "tests/reference/hybrid_allreduce.h"
#include "tests/reference/inceptionn.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

/// All that messages of ours carry, as allreduces() names them, in groups of all sizes that matter: "tree:2".
const std::vector<std::string> kAllreduceNames = [] {
  std::vector<std::string> all;
  for (const AllreduceKind& kind : allreduces()) {
    if (kind.carrier != Carrier::messages) continue;
    if (kind.least_group == 0) all.push_back(kind.name);
    for (const int G : {1, 2, 3, 4, 20})
      if (kind.least_group > 0 && G >= kind.least_group) all.push_back(concat(kind.name, ":", G));
  }
  return all;
}();
Task<> run(const std::string& allreduce, Communicator& comm, Slice<float> x) {
  const auto [kind, group] = allreduce_named(allreduce);
  return kind.run(comm, x, {.group = group, .pieces = 0}, {});
}
Cost cost_of(const std::string& allreduce, int N, double bytes) { return *allreduce_cost(allreduce, N, bytes, 0); }
/// For those that cut x into N equal blocks or none: a rank sends what the formula counts, to the byte.
bool counts_to_the_byte(const std::string& allreduce) { return allreduce.find(':') == std::string::npos; }

class EveryAllreduce : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryAllreduce, IsTheNaiveSumAndTheSameBitsOnAllRanksForAnyNAndLength) {
  for (const int N : kRanks)
    for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, static_cast<std::size_t>(N - 1),
                          std::size_t{1000}, std::size_t{1003}}) {
      std::vector<double> oracle(n, 0.0);
      std::vector<double> scale(n, 0.0);
      for (int r = 0; r < N; ++r) {
        const auto x = values_of(r, n);
        for (std::size_t i = 0; i < n; ++i) oracle[i] += x[i], scale[i] += std::abs(x[i]);
      }
      std::vector<std::vector<float>> result(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        std::vector<float>& x = result[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
        w.engine.run("allreduce", [&](Communicator& comm) { return run(GetParam(), comm, slice(x)); });
      });
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(result[0][i], oracle[i], 1e-6 * scale[i]) << N << " ranks, " << n;
      for (int r = 1; r < N; ++r)
        ASSERT_TRUE(same_bits(result[static_cast<std::size_t>(r)], result[0]))
            << "rank " << r << " of " << N << ", " << n << " elements";
    }
}

TEST_P(EveryAllreduce, SendsExactlyWhatItsCostFormulaSays) {
  for (const int N : kRanks)
    for (std::size_t n : {0, 1, 7, 1000}) {
      std::vector<Traffic> sent(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x(n, 1.0f);
        w.engine.run("allreduce", [&](Communicator& comm) { return run(GetParam(), comm, slice(x)); });
        for (float v : x) EXPECT_EQ(v, static_cast<float>(N));
        sent[static_cast<std::size_t>(w.rank)] = w.engine.counters().sent;
      });
      const Cost cost = cost_of(GetParam(), N, 4.0 * static_cast<double>(n));
      Traffic all;
      for (const Traffic& t : sent) {
        all.messages += t.messages, all.bytes += t.bytes;
        EXPECT_LE(static_cast<double>(t.messages), cost.messages);
      }
      EXPECT_EQ(static_cast<double>(all.messages), cost.all_messages) << N << " ranks, " << n;
      // A leader keeps the first block of its group's, which may be an element longer than the others.
      const double slack = counts_to_the_byte(GetParam()) ? 1e-6 : 8.0 * N;
      EXPECT_NEAR(static_cast<double>(all.bytes), cost.all_bytes, slack) << N << " ranks, " << n;
    }
}

TEST(Allreduces, BusiestRankSendsTheBytesOfTheFormulaWhenBlocksAreEven) {
  int counted = 0;
  for (const auto& allreduce : kAllreduceNames) {
    if (!counts_to_the_byte(allreduce)) continue;  // a leader's turns to receive count too: see the test of its own
    SCOPED_TRACE(allreduce);
    ++counted;
    for (int N : {2, 4, 8}) {
      const std::size_t n = 8 * 64;
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x(n, 1.0f);
        w.engine.run("allreduce", [&](Communicator& comm) { return run(allreduce, comm, slice(x)); });
        const Cost cost = cost_of(allreduce, N, 4.0 * n);
        EXPECT_EQ(static_cast<double>(w.engine.counters().sent.bytes), cost.bytes);
        EXPECT_EQ(static_cast<double>(w.engine.counters().sent.messages), cost.messages);
      });
    }
  }
  EXPECT_GE(counted, 3);
}

TEST_P(EveryAllreduce, RepeatsToTheSameBits) {
  const std::size_t n = 1003;
  std::vector<float> first, second;
  for (std::vector<float>* result : {&first, &second})
    on_ranks(5, [&](Worker& w) {
      std::vector<float> x = values_of(w.rank, n);
      w.engine.run("allreduce", [&](Communicator& comm) { return run(GetParam(), comm, slice(x)); });
      if (w.rank == 3) *result = x;
    });
  EXPECT_TRUE(same_bits(first, second));
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryAllreduce, ::testing::ValuesIn(kAllreduceNames), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(HybridAr, RingAndButterflyHaveTheBitsOfTheReference) {
  for (const int N : kRanks)
    for (const std::size_t n : {std::size_t{0}, std::size_t{7}, std::size_t{1003}, std::size_t{300'001}}) {
      reference::Nodes ring;
      for (int r = 0; r < N; ++r) ring.push_back(values_of(r, n));
      reference::Nodes butterfly = ring;
      const bool has_butterfly = (N & (N - 1)) == 0;  // the paper's; for other N ranks pair up first
      reference::ring_allreduce(ring);
      if (has_butterfly) reference::butterfly_allreduce(butterfly);
      on_ranks(N, [&](Worker& w) {
        const auto r = static_cast<std::size_t>(w.rank);
        std::vector<float> x = values_of(w.rank, n);
        w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(x)); });
        EXPECT_TRUE(same_bits(x, ring[r])) << "rank " << r << " of " << N << ", " << n;
        if (!has_butterfly) return;
        x = values_of(w.rank, n);
        w.engine.run("butterfly", [&](Communicator& comm) { return butterfly_allreduce(comm, slice(x)); });
        EXPECT_TRUE(same_bits(x, butterfly[r])) << "rank " << r << " of " << N << ", " << n;
      });
    }
}

TEST(Inceptionn, ACodedRingHasTheBitsOfAlgorithm1) {
  for (const int N : {1, 2, 3, 4, 7})
    for (const int exponent : {-10, -6}) {
      constexpr std::size_t n = 1003;
      const auto codec = compress::make_codec(concat("inceptionn-published:2^", exponent));
      std::vector<std::vector<float>> nodes;
      for (int r = 0; r < N; ++r) nodes.push_back(values_of(r, n));
      for (auto& x : nodes)
        for (float& v : x) v *= 0x1p-4f;
      const std::vector<std::vector<float>> gradients = nodes;
      reference::exchange(nodes, 127 + exponent);
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x = gradients[static_cast<std::size_t>(w.rank)];
        w.engine.run("ring",
                     [&](Communicator& comm) { return ring_allreduce(comm, slice(x), 1, {.codec = codec.get()}); });
        EXPECT_TRUE(same_bits(x, nodes[static_cast<std::size_t>(w.rank)])) << w.rank << " of " << N;
      });
    }
}

TEST(HierarchicalAllreduce, LeaderTakesTheStepsOfHybridArsThirdEquation) {
  for (int p : {4, 6, 8, 9})
    for (int k : {1, 2, 3, 4})
      if (p % k == 0) {
        const std::size_t n = 72;
        const Cost cost = hierarchical_allreduce_cost(p, 4.0 * n, k);
        EXPECT_EQ(cost.messages, 4 * (k - 1) + 2 * (p / k - 1));
        on_ranks(p, [&](Worker& w) {
          std::vector<float> x(n, 1.0f);
          w.engine.run("allreduce", [&](Communicator& comm) { return hierarchical_allreduce(comm, slice(x), k); });
          const Traffic sent = w.engine.counters().sent;
          // In k-1 of its steps a leader only receives, which others count.
          const double received = k - 1.0, block = 4.0 * n / k;
          if (w.rank % k == 0) {
            EXPECT_EQ(static_cast<double>(sent.messages), cost.messages - received) << p << " ranks, groups of " << k;
            EXPECT_NEAR(static_cast<double>(sent.bytes), cost.bytes - received * block, 8.0 * p);
          }
        });
      }
}

TEST(TreeAllreduce, TheRootSendsHalfOfWhatItsFormulaCountsAndReceivesTheOtherHalf) {
  for (const int N : {2, 3, 4, 5, 6, 7, 8, 9, 17})
    for (int G : {2, 3, 20})
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x(100, 1.0f);
        w.engine.run("allreduce", [&](Communicator& comm) { return tree_allreduce(comm, slice(x), G); });
        const Cost cost = tree_allreduce_cost(N, 400, G);
        const Traffic sent = w.engine.counters().sent;
        if (w.rank == 0) {
          EXPECT_EQ(2 * static_cast<double>(sent.messages), cost.messages);
          EXPECT_EQ(2 * static_cast<double>(sent.bytes), cost.bytes);
        }
      });
}

TEST(TreeAllreduce, RefusesGroupsThatNeverBecomeOne) {
  for (const bool rings : {false, true})
    EXPECT_THROW(on_ranks(2,
                          [&](Worker& w) {
                            float x = 1;
                            const Slice<float> one(&x, 1);
                            w.engine.run("allreduce", [&](Communicator& comm) {
                              return rings ? hierarchical_allreduce(comm, one, 1, {}, LeadersBy::tree)
                                           : tree_allreduce(comm, one, 1);
                            });
                          }),
                 UsageError);
}

TEST(HierarchicalAllreduce, RefusesGroupsOfNobody) {
  EXPECT_THROW(on_ranks(2,
                        [](Worker& w) {
                          float x = 1;
                          const Slice<float> one(&x, 1);
                          w.engine.run("allreduce",
                                       [&](Communicator& comm) { return hierarchical_allreduce(comm, one, 0); });
                        }),
               UsageError);
}

TEST(Allreduce, LengthsThatDifferBetweenRanksEndInASentenceAndNotInAHang) {
  for (const std::string& algorithm : kAllreduceNames) try {
      on_ranks(2, [&](Worker& w) {
        std::vector<float> x(w.rank == 0 ? 100 : 200, 1.0f);
        w.engine.run("allreduce", [&](Communicator& comm) { return run(algorithm, comm, slice(x)); });
      });
      FAIL() << algorithm;
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("Do all ranks run the same model"), std::string::npos) << e.what();
    }
}

TEST(Broadcast, GivesEveryRankTheRootsBytesForAnyRoot) {
  for (const int N : kRanks)
    for (int root = 0; root < N; ++root) {
      std::vector<Traffic> sent(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        std::vector<float> x(33, static_cast<float>(w.rank));
        w.engine.run("broadcast", [&](Communicator& comm) { return broadcast(comm, slice(x).bytes(), root); });
        for (float v : x) EXPECT_EQ(v, static_cast<float>(root));
        sent[static_cast<std::size_t>(w.rank)] = w.engine.counters().sent;
      });
      Traffic all;
      for (const Traffic& t : sent) all.messages += t.messages, all.bytes += t.bytes;
      const Cost cost = broadcast_cost(N, 33 * 4);
      EXPECT_EQ(static_cast<double>(all.messages), cost.all_messages);
      EXPECT_EQ(static_cast<double>(all.bytes), cost.all_bytes);
    }
}

TEST(Broadcast, GoesInSeveralMessagesWhereItIsLong) {
  for (const std::size_t bytes : {0u, 8u, 9u, 24u, 33u})
    on_ranks(3, [&](Worker& w) {
      std::vector<std::byte> x(bytes, static_cast<std::byte>(w.rank));
      w.engine.run("broadcast", [&](Communicator& comm) { return broadcast(comm, slice(x), 1, 8); });
      for (const std::byte b : x) EXPECT_EQ(b, std::byte{1});
      if (w.rank == 1) {
        EXPECT_EQ(w.engine.counters().sent.messages, 2 * std::max<std::size_t>(1, (bytes + 7) / 8)) << bytes;
      }
    });
}

TEST(Barrier, LetsNobodyLeaveBeforeEverybodyCame) {
  for (const int N : kRanks) {
    std::atomic<int> came{0};
    on_ranks(N, [&](Worker& w) {
      for (int round = 1; round <= 20; ++round) {
        came.fetch_add(1);
        w.engine.run("barrier", barrier);
        EXPECT_GE(came.load(), round * N);
      }
      EXPECT_EQ(static_cast<double>(w.engine.counters().sent.messages), 20 * barrier_cost(N).messages);
    });
  }
}

TEST(AllgatherBlobs, GivesEveryRankEveryBlobAlsoEmptyOnes) {
  for (const int N : kRanks)
    on_ranks(N, [&](Worker& w) {
      const auto blob = [](int r) {
        return std::string(static_cast<std::size_t>(r % 3) * 1000, static_cast<char>('a' + r));
      };
      const std::string mine = blob(w.rank);
      std::vector<std::string> all;
      w.engine.run("allgather", [&](Communicator& comm) { return allgather_blobs(comm, mine, all); });
      ASSERT_EQ(all.size(), static_cast<std::size_t>(N));
      for (int r = 0; r < N; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], blob(r));
      w.engine.run("gather", [&](Communicator& comm) { return gather_blobs(comm, mine, all); });
      ASSERT_EQ(all.size(), w.rank == 0 ? static_cast<std::size_t>(N) : 0u);
      for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], blob(static_cast<int>(r)));
    });
}

TEST(SumOverRanks, AddsInRankOrderSoThatAllRanksHoldTheSameBits) {
  const double values[] = {1e16, 1.0, -1e16, 0.5, 3.0};
  double expected = 0;
  for (double v : values) expected += v;
  on_ranks(5, [&](Worker& w) {
    double x[] = {values[w.rank], 1.0};
    w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, {x, 2}); });
    EXPECT_EQ(x[0], expected);
    EXPECT_EQ(x[1], 5.0);
  });
}

TEST(Subgroup, RunsCollectivesAmongItsMembersOnly) {
  on_ranks(6, [&](Worker& w) {
    float x = 1.0f + static_cast<float>(w.rank);
    w.engine.run("groups", [&](Communicator& comm) -> Task<> {
      const std::vector<int> group = w.rank % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{5, 3, 1};
      const std::unique_ptr<Communicator> mine = comm.subgroup(group);
      EXPECT_EQ(group[static_cast<std::size_t>(mine->rank())], w.rank);
      const Slice<float> one(&x, 1);
      co_await butterfly_allreduce(*mine, one);
    });
    EXPECT_EQ(x, w.rank % 2 == 0 ? 9.0f : 12.0f);
  });
}

}  // namespace
}  // namespace laconic::dist
