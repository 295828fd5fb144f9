// Exchanges of sparse vectors: alltoallv, SplitExchange against a naive sum, the wire format and what is no message.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/base/random.h"
#include "dist/collective/meeting.h"
#include "dist/method/redsync/split_exchange.h"
#include "tests/collective_costs.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using compress::IndexCoding;

TEST(Alltoallv, GivesEveryRankWhatEveryOtherHadForIt) {
  for (const int N : {1, 2, 3, 4, 7})
    on_ranks(N, [&](Worker& w) {
      const auto length = [](int from, int to) { return static_cast<std::size_t>(from * 7 + to * to) * 100 % 1300; };
      std::vector<compress::Bytes> parts(static_cast<std::size_t>(N));
      for (int d = 0; d < N; ++d) {
        const Slice<std::byte> bytes = parts[static_cast<std::size_t>(d)].append(length(w.rank, d));
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(w.rank * 16 + d));
      }
      Gathered all;
      for (int round = 0; round < 3; ++round) {
        const Traffic before = w.engine.counters().sent;
        w.engine.run("alltoallv", [&](Communicator& comm) { return alltoallv(comm, parts, 1300, all); });
        ASSERT_EQ(all.size(), N);
        for (int s = 0; s < N; ++s) {
          ASSERT_EQ(all[s].size(), length(s, w.rank));
          for (const std::byte b : all[s]) ASSERT_EQ(b, static_cast<std::byte>(s * 16 + w.rank));
        }
        double bytes = 0;
        for (int d = 0; d < N; ++d)
          if (d != w.rank) bytes += static_cast<double>(length(w.rank, d));
        const Traffic after = w.engine.counters().sent;
        EXPECT_EQ(static_cast<double>(after.bytes - before.bytes), bytes);
        EXPECT_EQ(static_cast<double>(after.messages - before.messages), alltoallv_cost(N, 1).messages);
      }
    });
}

TEST(Alltoallv, RefusesPartsThatAreTooLongOrTooFew) {
  on_ranks(1, [](Worker& w) {
    Gathered all;
    std::vector<compress::Bytes> parts(1);
    parts[0].append(9);
    EXPECT_THROW(w.engine.run("x", [&](Communicator& comm) { return alltoallv(comm, parts, 8, all); }), UsageError);
    parts.resize(2);
    EXPECT_THROW(w.engine.run("x", [&](Communicator& comm) { return alltoallv(comm, parts, 9, all); }), UsageError);
  });
}

struct Elements {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

/// k different ones of n, most of them in its first part.
Elements some_elements(std::size_t n, std::size_t k, int rank) {
  std::map<std::uint32_t, float> chosen;
  Random random(3, Purpose::test, static_cast<std::uint64_t>(rank), n);
  while (chosen.size() < k) {
    const float x = random.uniform();
    chosen[static_cast<std::uint32_t>(std::min(n - 1, static_cast<std::size_t>(x * x * static_cast<float>(n))))] =
        random.normal();
  }
  Elements e;
  for (const auto& [i, v] : chosen) e.indices.push_back(i), e.values.push_back(v);
  return e;
}

TEST(SplitExchange, GivesAllRanksTheLargestSumsAndTheirOwnersTheRest) {
  constexpr std::size_t n = 5000;
  for (const int N : {1, 2, 3, 4, 8})
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{50}, std::size_t{700}}) {
      SCOPED_TRACE(concat(N, " ranks, k ", k));
      std::vector<double> expected(n), came(n);
      for (int r = 0; r < N; ++r) {
        const Elements e = some_elements(n, k, r);
        for (std::size_t j = 0; j < k; ++j) expected[e.indices[j]] += e.values[j];
      }
      std::vector<std::vector<float>> given(static_cast<std::size_t>(N)), dropped(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        const SparseWire wire{.format = {.coding = IndexCoding::packed}};
        SplitExchange exchange(wire, n, N, w.rank);
        const Elements e = some_elements(n, k, w.rank);
        exchange.load(slice(e.indices), slice(e.values), k, 2 * k);
        w.engine.run("split", [&](Communicator& comm) { return exchange.run(comm); });
        std::vector<float> dense(n), rest(n);
        std::vector<compress::SparseView> views;
        float smallest = 1e30f;
        for (int r = 0; r < N; ++r) {
          exchange.wire().read(exchange.all()[r], n, views, 0);
          EXPECT_LE(views[0].size(), (k + static_cast<std::size_t>(N) - 1) / static_cast<std::size_t>(N));
          for (std::size_t j = 0; j < views[0].size(); ++j) {
            dense[views[0].indices()[j]] = views[0].value(j);
            if (r == w.rank) smallest = std::min(smallest, std::abs(views[0].value(j)));
          }
        }
        for (std::size_t j = 0; j < exchange.dropped_indices().size(); ++j) {
          rest[exchange.dropped_indices()[j]] = exchange.dropped_values()[j];
          EXPECT_LE(std::abs(exchange.dropped_values()[j]), smallest);
        }
        given[static_cast<std::size_t>(w.rank)] = dense, dropped[static_cast<std::size_t>(w.rank)] = rest;
      });
      for (std::size_t i = 0; i < n; ++i) {
        double sum = given[0][i];
        for (const auto& rest : dropped) sum += rest[i];
        ASSERT_NEAR(sum, expected[i], 1e-5) << i;
      }
      for (const auto& g : given) EXPECT_TRUE(same_bits(g, given[0]));
    }
}

TEST(SplitExchange, TakesSignsAndQuantisedValues) {
  constexpr std::size_t n = 1000;
  for (const bool both : {false, true})
    on_ranks(3, [&](Worker& w) {
      const SparseWire wire{.format = {.one_value = true}, .both_signs = both};
      SplitExchange exchange(wire, n, 3, w.rank);
      const std::vector<std::uint32_t> indices{1, 2, 500, 999};
      const std::vector<float> each{2, -2, 2, -2}, one{2};
      exchange.load(slice(indices), both ? slice(each) : slice(one), 40, 40);
      w.engine.run("split", [&](Communicator& comm) { return exchange.run(comm); });
      std::vector<float> dense(n);
      std::vector<compress::SparseView> views;
      for (int r = 0; r < 3; ++r) {
        exchange.wire().read(exchange.all()[r], n, views, 0);
        for (std::size_t j = 0; j < views[0].size(); ++j) dense[views[0].indices()[j]] += views[0].value(j);
      }
      for (std::size_t j = 0; j < indices.size(); ++j) EXPECT_EQ(dense[indices[j]], 3 * (both ? each[j] : one[0]));
      EXPECT_TRUE(exchange.dropped_indices().empty());
    });
}

TEST(SplitExchange, AMessageAboutElementsOfAnotherOwnerIsNone) {
  std::string said;
  try {
    on_ranks(2, [&](Worker& w) {
      SplitExchange exchange({}, 1000, 2, w.rank);
      const std::vector<std::uint32_t> indices{1, 2};
      const std::vector<float> values{1, 1};
      exchange.load(slice(indices), slice(values), 4, 4);
      if (w.rank == 0) {
        w.engine.run("split", [&](Communicator& comm) { return exchange.run(comm); });
        return;
      }
      std::vector<compress::Bytes> parts(2);
      SparseWire{}.encode(slice(std::as_const(indices)), slice(std::as_const(values)), 1000, parts[1]);
      SparseWire{}.encode(Slice<const std::uint32_t>(indices.data(), 0), Slice<const float>(values.data(), 0), 1000,
                          parts[0]);
      const std::uint32_t far = 700;
      parts[0].clear();
      SparseWire{}.encode({&far, 1}, slice(std::as_const(values)).first(1), 1000, parts[0]);
      Gathered all;
      w.engine.run("split",
                   [&](Communicator& comm) { return alltoallv(comm, parts, SparseWire{}.max_bytes(4, 1000), all); });
      w.engine.run("barrier", [&](Communicator& comm) -> Task<> {
        std::vector<double> x{0.0};
        co_await sum_over_ranks(comm, slice(x));
      });
    });
  } catch (const CommError& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("split exchange: rank 1 sent elements 700"), std::string::npos) << said;
}

TEST(SparseWire, ReadsWhatItHasWritten) {
  for (const IndexCoding coding : {IndexCoding::raw, IndexCoding::packed, IndexCoding::rice})
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{300}}) {
      const std::size_t n = 10'000;
      Elements e = some_elements(n, k, 1);
      for (float& v : e.values) v = v > 0 ? 0.5f : -0.5f;
      const SparseWire wire{.format = {.coding = coding, .one_value = true}, .both_signs = true};
      compress::Bytes payload;
      wire.encode(slice(std::as_const(e.indices)), slice(std::as_const(e.values)), n, payload);
      EXPECT_LE(payload.size(), wire.max_bytes(k, n));
      std::vector<compress::SparseView> views;
      ASSERT_EQ(wire.read(payload.slice(), n, views, 0), 2u);
      std::map<std::uint32_t, float> all;
      for (const auto& view : views)
        for (std::size_t j = 0; j < view.size(); ++j) all[view.indices()[j]] = view.value(j);
      ASSERT_EQ(all.size(), k);
      for (std::size_t j = 0; j < k; ++j) EXPECT_EQ(all[e.indices[j]], e.values[j]);
    }
}

TEST(SparseWire, DamagedPayloadsAreRefusedOrRead) {
  Random random(1, Purpose::test, 99);
  const Elements e = some_elements(3000, 40, 0);
  for (const bool both : {false, true})
    for (const IndexCoding coding : {IndexCoding::raw, IndexCoding::packed, IndexCoding::rice}) {
      const SparseWire wire{.format = {.coding = coding, .one_value = both}, .both_signs = both};
      compress::Bytes payload;
      wire.encode(slice(std::as_const(e.indices)), slice(std::as_const(e.values)), 3000, payload);
      std::vector<compress::SparseView> views;
      int refused = 0;
      for (int trial = 0; trial < 3000; ++trial) {
        // Exactly as long as the message, so that a sanitizer sees what is read behind it.
        std::vector<std::byte> damaged(payload.slice().begin(), payload.slice().end());
        if (trial % 3 == 0) damaged.resize(random.below(static_cast<std::uint32_t>(damaged.size())));
        for (std::uint32_t flips = trial % 3 == 0 ? 0 : 1 + random.below(4); flips > 0 && !damaged.empty(); --flips)
          damaged[random.below(static_cast<std::uint32_t>(damaged.size()))] ^=
              static_cast<std::byte>(1u << random.below(8));
        damaged.shrink_to_fit();
        try {
          const std::size_t count = wire.read(slice(std::as_const(damaged)), 3000, views, 0);
          for (std::size_t v = 0; v < count; ++v)
            for (const std::uint32_t i : views[v].indices()) ASSERT_LT(i, 3000u);
        } catch (const DataError&) {
          ++refused;
        }
      }
      EXPECT_GT(refused, 900);  // a cut one is always
    }
}

}  // namespace
}  // namespace laconic::dist
