#include "dist/collective/allgatherv.h"

#include <cstring>
#include <random>
#include <string>

#include "tests/collective_costs.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using Run = Task<> (*)(Communicator&, Slice<const std::byte>, std::size_t, Gathered&);
struct AnyAllgather {
  const char* name;
  Run run;
  Cost (*cost)(int, double);
};
const AnyAllgather kAllgathers[] = {{"doubling or Bruck", allgatherv, allgatherv_cost},
                                    {"ring", ring_allgatherv, ring_allgatherv_cost}};

/// Lengths from 0 to 40, several of them 0, others in every round.
std::string part_of(int rank, int round) {
  const int length = (rank * 13 + round * 7) % 5 == 0 ? 0 : (rank * 17 + round * 29) % 41;
  std::string part;
  for (int i = 0; i < length; ++i) part += static_cast<char>('a' + (rank + i + round) % 26);
  return part;
}

Slice<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text_of(Slice<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Allgatherv, GivesEveryRankEveryPartAlsoEmptyOnesAndSendsWhatItsCostSays) {
  for (const AnyAllgather& algorithm : kAllgathers)
    for (const int N : kRanks) {
      constexpr int kRounds = 6;
      double total = 0;
      for (int round = 0; round < kRounds; ++round)
        for (int r = 0; r < N; ++r) total += static_cast<double>(part_of(r, round).size());
      std::atomic<std::uint64_t> messages{0}, bytes{0};
      const Cost cost = algorithm.cost(N, total / N / kRounds + kPartHeader);
      on_ranks(N, [&](Worker& w) {
        Gathered all;  // used again and again
        for (int round = 0; round < kRounds; ++round) {
          const std::string mine = part_of(w.rank, round);
          w.engine.run("allgatherv", [&](Communicator& comm) { return algorithm.run(comm, bytes_of(mine), 40, all); });
          ASSERT_EQ(all.size(), N);
          for (int r = 0; r < N; ++r)
            EXPECT_EQ(text_of(all[r]), part_of(r, round)) << algorithm.name << ", " << N << " ranks, part of " << r;
        }
        EXPECT_EQ(static_cast<double>(w.engine.counters().sent.messages), kRounds * cost.messages) << algorithm.name;
        messages += w.engine.counters().sent.messages, bytes += w.engine.counters().sent.bytes;
      });
      EXPECT_EQ(static_cast<double>(messages.load()), kRounds * cost.all_messages) << algorithm.name << ", " << N;
      EXPECT_NEAR(static_cast<double>(bytes.load()), kRounds * cost.all_bytes, 1e-3) << algorithm.name << ", " << N;
    }
}

TEST(Allgatherv, TakesPartsThatAreAllEmptyOrAllAtTheLimit) {
  for (std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}})
    on_ranks(5, [&](Worker& w) {
      const std::string mine(length, static_cast<char>('a' + w.rank));
      Gathered all;
      w.engine.run("allgatherv", [&](Communicator& comm) { return allgatherv(comm, bytes_of(mine), length, all); });
      for (int r = 0; r < 5; ++r) EXPECT_EQ(text_of(all[r]), std::string(length, static_cast<char>('a' + r)));
    });
}

TEST(Allgatherv, RefusesMoreThanTheLimit) {
  const std::string mine(11, 'x');
  EXPECT_THROW(on_ranks(2,
                        [&](Worker& w) {
                          Gathered all;
                          w.engine.run("allgatherv",
                                       [&](Communicator& comm) { return allgatherv(comm, bytes_of(mine), 10, all); });
                        }),
               UsageError);
}

std::string record(const std::string& part) {
  const auto length = static_cast<std::uint32_t>(part.size());
  std::string text(4, '\0');
  std::memcpy(text.data(), &length, 4);
  return text + part;
}

TEST(PartsOf, ReadsALengthInLittleEndianBeforeEveryPart) {
  const char literal[] = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 1, 0, 0, 0, 'd'};
  const std::string message(literal, sizeof literal);
  std::vector<std::string> parts;
  for (const Slice<const std::byte> part : parts_of(bytes_of(message), 3, 3, 1)) parts.push_back(text_of(part));
  EXPECT_EQ(parts, (std::vector<std::string>{"abc", "", "d"}));
  EXPECT_EQ(message, record("abc") + record("") + record("d"));
}

TEST(PartsOf, RefusesEveryWayInWhichAMessageCanBeWrong) {
  const std::string good = record("abc") + record("") + record("d");
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    const std::string shorter = good.substr(0, cut);
    EXPECT_THROW(parts_of(bytes_of(shorter), 3, 3, 1), CommError) << "cut to " << cut;
  }
  const std::string longer = good + "x";
  EXPECT_THROW(parts_of(bytes_of(longer), 3, 3, 1), CommError);
  EXPECT_THROW(parts_of(bytes_of(good), 2, 3, 1), CommError) << "fewer parts were due";
  EXPECT_THROW(parts_of(bytes_of(good), 4, 3, 1), CommError) << "more parts were due";
  EXPECT_THROW(parts_of(bytes_of(good), 3, 2, 1), CommError) << "a part above the limit";
  std::string huge = good;
  std::memset(huge.data(), 0xff, 4);
  EXPECT_THROW(parts_of(bytes_of(huge), 3, ~std::size_t{0}, 1), CommError) << "4 GiB announced";
}

/// Random damage: bytes changed, cut, repeated. In memory of exactly the message's size, so that the address sanitizer
/// sees a read outside of it.
std::string damaged(std::mt19937& random, std::string message) {
  for (unsigned i = 0, changes = 1 + random() % 3; i < changes && !message.empty(); ++i) switch (random() % 4) {
      case 0:
        message[random() % message.size()] = static_cast<char>(random());
        break;
      case 1:
        message.resize(random() % message.size());
        break;
      case 2:
        message += message.substr(random() % message.size());
        break;
      default:
        message[random() % message.size()] ^= static_cast<char>(1u << random() % 8);
        break;
    }
  message.shrink_to_fit();
  return message;
}

TEST(PartsOf, NeverReadsOutsideOfADamagedMessage) {
  std::mt19937 random(20);
  int refused = 0, read = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string good;
    const int count = static_cast<int>(random() % 5);
    for (int j = 0; j < count; ++j) good += record(std::string(random() % 9, 'p'));
    const std::string bad = damaged(random, good);
    const std::vector<char> exact(bad.begin(), bad.end());
    const Slice<const std::byte> message(reinterpret_cast<const std::byte*>(exact.data()), exact.size());
    try {
      std::size_t sum = 0;
      for (const Slice<const std::byte> part : parts_of(message, count, 8, 1)) {
        ASSERT_LE(part.size(), 8u);
        sum += part.size() + 4;
      }
      ASSERT_EQ(sum, message.size());
      ++read;
    } catch (const CommError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_GT(read, 10'000);  // damage inside of a part is not its business
}

TEST(Allgatherv, DamagedMessageOfAnotherRankIsAnErrorAndNeverAWildRead) {
  // Rank 1 speaks the protocol by hand and sends what it likes; rank 0 goes on after every error.
  std::atomic<int> refused{0};
  on_ranks(2, [&](Worker& w) {
    std::mt19937 random(21);
    for (int i = 0; i < 500; ++i) {
      const std::string bad = damaged(random, record(std::string(random() % 30, 'p')));
      const std::string sent = bad.substr(0, 4 + 30);  // what is longer than the room is the transport's business
      if (w.rank == 1) {
        w.engine.run("by hand", [&](Communicator& comm) -> Task<> {
          std::vector<std::byte> room(100);
          const Slice<std::byte> in = slice(room);
          const Slice<const std::byte> out = bytes_of(sent);
          co_await comm.recv(0, in);
          co_await comm.send(0, out);
        });
        continue;
      }
      Gathered all;
      const std::string mine = "mine";
      try {
        w.engine.run("allgatherv", [&](Communicator& comm) { return allgatherv(comm, bytes_of(mine), 30, all); });
        EXPECT_EQ(all[1].size() + 4, sent.size());
      } catch (const CommError&) {
        ++refused;
      }
    }
  });
  EXPECT_GT(refused.load(), 100);
  EXPECT_LT(refused.load(), 500);
}

}  // namespace
}  // namespace laconic::dist
