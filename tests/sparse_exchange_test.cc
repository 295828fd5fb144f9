// Exchanges of sparse vectors: alltoallv, the wire format and what is no message.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "core/base/random.h"
#include "dist/collective/allgatherv.h"
#include "dist/method/carry.h"
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

/// A coroutine begins when it is first asked to go on: what says where the chosen lie may be gone by then.
TEST(Carry, PacksWhatWasChosenWhenItGoesOn) {
  const Elements e = some_elements(3000, 40, 0);
  Carry carry({.method = "a method", .parameter = "w", .elements = 3000});
  auto chosen = std::make_unique<Chosen>(
      Chosen{.indices = slice(e.indices), .values = slice(e.values), .count = 40, .most = 40});
  Steps packing = carry.pack(*chosen);
  *chosen = {};
  chosen.reset();
  EXPECT_FALSE(packing.go_on()) << "host memory needs no wait";
  compress::Bytes expected;
  SparseWire{}.encode(slice(e.indices), slice(e.values), 3000, expected);
  EXPECT_EQ(carry.buffer_bytes(), expected.size());
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
