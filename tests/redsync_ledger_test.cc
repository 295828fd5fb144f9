// What RedSync and its neighbours send: bytes on the network, and the ledger.
#include "dist/collective/meeting.h"
#include "tests/redsync_training.h"

namespace laconic::dist {
namespace {

TEST(RedSync, StatesTheBytesThatItHandsToTheNetwork) {
  std::uint64_t after = 0;
  double expected = 0;
  on_ranks(4, [&](Worker& w) {
    Settings s;
    s.sparse.density = 0.02;
    Training t(w, s);
    t.steps(1, 1);
    const std::uint64_t one = w.engine.counters().sent.bytes;
    t.steps(2, 11);
    EXPECT_GT(t.sync->costs().select_seconds, 0);
    std::vector<double> sum{static_cast<double>(w.engine.counters().sent.bytes - one)};
    w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, slice(sum)); });
    if (w.rank == 0) {
      after = static_cast<std::uint64_t>(sum[0] / 40);
      RedSyncMethod method(*sparse_method(s.sync));
      method.options = s.sparse;
      expected = method.expected_bytes(t.sync->plan(), t.arena.parameters(), {.workers = 4}).value();
    }
  });
  EXPECT_NEAR(static_cast<double>(after), expected, 0.05 * expected);
}

LedgerRow row_of(const std::vector<LedgerRow>& rows, const std::string& parameter) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const LedgerRow& r) { return r.parameter == parameter; });
  EXPECT_NE(found, rows.end()) << parameter;
  return found == rows.end() ? LedgerRow{} : *found;
}

/// The ledger of rank 0 and all bytes that all ranks have sent in 20 steps.
std::pair<std::vector<LedgerRow>, double> ledger_of(int N, Settings s) {
  s.ledger_every = 5;
  std::vector<LedgerRow> rows;
  double bytes = 0;
  on_ranks(N, [&](Worker& w) {
    Training t(w, s);
    const std::uint64_t before = w.engine.counters().sent.bytes;
    t.steps(1, 20);
    std::vector<double> sum{static_cast<double>(w.engine.counters().sent.bytes - before)};
    double own = 0;
    for (const LedgerRow& r : t.sync->ledger()) own += r.bytes;
    sum.push_back(own);
    w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, slice(sum)); });
    if (w.rank != 0) return;
    rows = t.sync->ledger();
    bytes = sum[0];
    EXPECT_NEAR(sum[1], sum[0], 1e-3 * sum[0]) << "what the ledgers say is what was sent";
  });
  return {rows, bytes};
}

// RedSync's facts: an allgather's traffic grows with the ranks, the union of their choices nearly so.
TEST(RedSync, AllgatherTrafficGrowsWithTheRanks) {
  constexpr double k = 128;  // of fc1.weight's 6,400 elements
  double last_union = 0;
  for (const int N : {2, 3, 4, 8, 16}) {
    SCOPED_TRACE(N);
    Settings s;
    s.sparse.density = 0.02;
    const LedgerRow gathered = row_of(ledger_of(N, s).first, "fc1.weight");
    EXPECT_EQ(gathered.exchanges, 20);
    EXPECT_EQ(gathered.measured, 4);
    EXPECT_EQ(gathered.sent, k);
    EXPECT_EQ(gathered.bytes / 20, (N - 1) * (8 * k + 8));
    EXPECT_GT(gathered.union_density, last_union);
    EXPECT_LE(gathered.union_density, N * 0.02);
    last_union = gathered.union_density;
  }
  EXPECT_GT(last_union, 0.1);
}

TEST(RedSync, TheLedgerSaysWhatWasSentAndWhatWaits) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto [rows, bytes] = ledger_of(3, settings_of(c));
    EXPECT_EQ(rows.back().parameter, "(others)");
    EXPECT_EQ(rows.front().parameter, "conv");
    for (const LedgerRow& r : rows) {
      if (r.choice == "all") continue;
      EXPECT_EQ(r.exchanges, 20);
      EXPECT_NEAR(r.energy_sent + r.energy_held, 1, 1e-9);
      EXPECT_GT(r.energy_sent, 0);
      EXPECT_GT(r.energy_held, 0);
      EXPECT_GE(r.oldest, 1);
      EXPECT_LE(r.oldest, 20);
    }
  }
}

TEST(RedSync, TheLedgerGoesOnAfterResumingAsIfThereHadBeenNoStop) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Settings s = settings_of(c);
    s.ledger_every = 3;
    on_ranks(3, [&](Worker& w) {
      Training straight(w, s);
      straight.steps(1, 14);
      const std::vector<LedgerRow> expected = straight.sync->ledger();
      const std::vector<LedgerRow> rows = resumed(w, s, 7, 14)->sync->ledger();
      ASSERT_EQ(rows.size(), expected.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        SCOPED_TRACE(rows[i].parameter);
        EXPECT_EQ(rows[i].exchanges, expected[i].exchanges);
        EXPECT_EQ(rows[i].measured, expected[i].measured);
        EXPECT_EQ(rows[i].sent, expected[i].sent);
        EXPECT_EQ(rows[i].bytes, expected[i].bytes);
        EXPECT_EQ(rows[i].energy_sent, expected[i].energy_sent);
        EXPECT_EQ(rows[i].energy_held, expected[i].energy_held);
        EXPECT_EQ(rows[i].union_density, expected[i].union_density);
        EXPECT_EQ(rows[i].oldest, expected[i].oldest);
      }
    });
  }
}

TEST(RedSync, ALedgerBeginsAnewWhereTheCheckpointHasNoneAndRefusesAnother) {
  Settings without, with;
  with.ledger_every = 2;
  on_ranks(1, [&](Worker& w) {
    RankState state, none;
    Training one(w, with), other(w, without);
    one.steps(1, 4), other.steps(1, 4);
    one.sync->save(state), other.sync->save(none);
    Training t(w, with), silent(w, without);
    t.sync->load(none);
    EXPECT_EQ(row_of(t.sync->ledger(), "conv").exchanges, 0);
    silent.sync->load(state);
    EXPECT_TRUE(silent.sync->ledger().empty());
    for (const char* damaged : {"redsync/conv/ledger", "redsync/conv/last_chosen", "redsync/dense_bytes"}) {
      StateDict bad = state;
      bad.set(damaged, Tensor::zeros({3}));
      EXPECT_THROW(t.sync->load(bad), DataError) << damaged;
    }
  });
}

TEST(RedSync, TheOldestIsTheOneThatNoStepHasChosen) {
  Settings s{.sync = "randomk"};
  s.sparse.density = 1;
  EXPECT_EQ(row_of(ledger_of(2, s).first, "odd").oldest, 0);
  s.sync = "strom", s.sparse.density = 1e-3, s.sparse.threshold = 1e6;
  EXPECT_EQ(row_of(ledger_of(2, s).first, "odd").oldest, 20);
}

TEST(RedSync, OfOneRankSendsNothing) {
  on_ranks(1, [&](Worker& w) {
    Training t(w, {});
    t.steps(1, 5);
    EXPECT_EQ(w.engine.counters().sent.messages, 0u);
  });
}

}  // namespace
}  // namespace laconic::dist
