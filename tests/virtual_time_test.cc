// Virtual time against SwitchModel's arithmetic, and its results against real ranks.
#include "dist/engine/virtual_time.h"

#include "compress/codecs.h"
#include "core/base/random.h"
#include "core/tensor.h"
#include "dist/collective/allreduce.h"
#include "dist/collective/ring_allreduce.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;

const LinkOptions kGigabit{.all = {.bits_per_second = 1'000'000'000, .latency = 100us}};

std::vector<float> values_of_rank(int rank, std::size_t n) {
  Random random(7, Purpose::test, static_cast<std::uint64_t>(rank));
  std::vector<float> x(n);
  for (float& v : x) v = random.normal();
  return x;
}

/// All kinds that move messages of ours, in a form that N ranks can take.
std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const AllreduceKind& kind : allreduces())
    if (kind.carrier == Carrier::messages) names.push_back(kind.least_group > 0 ? kind.name + ":2" : kind.name);
  return names;
}

Task<> sum(Communicator& comm, Slice<float> x, const std::string& name, const Hops& hops) {
  const auto [kind, group] = allreduce_named(name);
  return kind.run(comm, x, {.group = group, .pieces = 3}, hops);
}

TEST(VirtualTime, SumsHaveTheBitsOfRealRanks) {
  for (const std::string& name : kinds())
    for (int N : {1, 2, 3, 4, 7}) {
      std::vector<std::vector<float>> real(static_cast<std::size_t>(N)), simulated(real);
      const auto codec = compress::make_codec(N == 4 ? "bf16" : "none");
      const Hops hops{.codec = codec.get()};
      const auto body = [&](std::vector<std::vector<float>>& x) {
        return [&](Engine& engine) {
          auto& mine = x[static_cast<std::size_t>(engine.rank())] = values_of_rank(engine.rank(), 5003);
          engine.run("sum", [&](Communicator& comm) { return sum(comm, slice(mine), name, hops); });
        };
      };
      on_ranks(N, [&, f = body(real)](Worker& w) { f(w.engine); });
      run_in_virtual_time({.ranks = N, .links = kGigabit}, body(simulated));
      EXPECT_EQ(real, simulated) << name << ", " << N << " ranks";
    }
}

/// A message of n bytes alone is there after latency + n / rate. A ring's are one after another.
TEST(VirtualTime, ARingTakesWhatItsDocstringSays) {
  for (int N : {2, 3, 5, 8}) {
    const std::size_t n = static_cast<std::size_t>(N) * 25'000;  // blocks of 100 kB: 0.8 ms
    run_in_virtual_time({.ranks = N, .links = kGigabit}, [&](VirtualEngine& engine) {
      std::vector<float> x(n);
      engine.run("sum", [&](Communicator& comm) { return ring_in_one_piece(comm, slice(x), {}); });
      EXPECT_NEAR(engine.now(), 2 * (N - 1) * (0.8e-3 + 100e-6), 1e-6) << N;
      EXPECT_EQ(engine.counters().sent.bytes,
                2 * (n / static_cast<std::size_t>(N)) * 4 * static_cast<std::size_t>(N - 1));
    });
  }
}

/// Work for messages on the cores that compute makes computing take longer by as much, and waiting does not.
TEST(VirtualTime, WorkForMessagesIsTakenFromComputing) {
  for (const double taken : {0.0, 0.5, 1.0})
    for (const int N : {2, 3})
      for (const bool mirrored : {true, false})
        run_in_virtual_time(
            {.ranks = N,
             .links = kGigabit,
             .work = {.per_byte = 1e-9, .taken_from_computing = taken},
             .mirrored = mirrored},
            [&](VirtualEngine& engine) {
              const Tensor x = Tensor::empty({std::int64_t{N} * 25'000}, DType::f32, kGhost);
              const auto body = [&](Communicator& comm) { return ring_in_one_piece(comm, x.slice(), {}); };
              const Ticket ticket = engine.submit({.name = "sum", .slot = 1, .body = body});
              engine.compute(0.050);
              const double work = 2 * 2 * (N - 1) * 100'000 * 1e-9;  // sending and taking
              EXPECT_NEAR(engine.now(), 0.050 + taken * work, 1e-6) << N << " " << taken;
              engine.wait(ticket);
              engine.run("sum", body);
              EXPECT_NEAR(engine.now(), 0.050 + taken * work + 2 * (N - 1) * 0.9e-3 + work, 2e-6) << N << " " << taken;
            });
}

/// What work takes is counted where it stands in the way: a ring adds after each hop of its first half.
TEST(VirtualTime, WorkOnGhostsTakesTime) {
  constexpr int N = 4;
  const std::size_t n = N * 25'000;
  run_in_virtual_time({.ranks = N, .links = kGigabit, .work = {.per_added_byte = 1e-9, .per_message = 10e-6}},
                      [&](VirtualEngine& engine) {
                        const Tensor x = Tensor::empty({static_cast<std::int64_t>(n)}, DType::f32, kGhost);
                        engine.run("sum", [&](Communicator& comm) { return ring_in_one_piece(comm, x.slice(), {}); });
                        EXPECT_NEAR(engine.now(), 6 * (0.8e-3 + 100e-6 + 20e-6) + 3 * 100e-6, 1e-6);
                      });
}

/// One that stands for all comes to the time of all.
TEST(VirtualTime, AMirroredRankTakesAsLongAsAll) {
  const auto bf16 = compress::make_codec("bf16");
  for (const AllreduceKind& kind : allreduces())
    for (int N : {2, 3, 4, 8}) {
      if (kind.alike == nullptr || !kind.alike(N)) continue;
      for (const compress::Codec* codec : {static_cast<const compress::Codec*>(nullptr), bf16.get()}) {
        double seconds[2], exposed[2];
        std::uint64_t bytes[2];
        for (const bool mirrored : {false, true}) {
          const VirtualNetwork network{
              .ranks = N, .links = kGigabit, .work = {1e-10, 1e-9, 2e-9, 5e-6}, .mirrored = mirrored};
          run_in_virtual_time(network, [&](VirtualEngine& engine) {
            const int slots = engine.reserve_slots(3);
            const Tensor x = Tensor::empty({1'000'000}, DType::f32, kGhost);
            std::vector<Ticket> tickets;
            const Hops hops{.codec = codec};
            for (int i = 0; i < 3; ++i) {
              engine.compute(1e-3);
              tickets.push_back(
                  engine.submit({.name = "sum", .slot = slots + i, .priority = i, .body = [&](Communicator& comm) {
                                   return sum(comm, x.slice(), kind.name, hops);
                                 }}));
            }
            for (int i = 3; i-- > 0;) engine.wait(tickets[static_cast<std::size_t>(i)]);
            if (engine.rank() > 0) return;
            seconds[mirrored] = engine.now(), exposed[mirrored] = engine.counters().exposed_seconds;
            bytes[mirrored] = engine.counters().sent.bytes;
          });
        }
        EXPECT_NEAR(seconds[0], seconds[1], 1e-3 * seconds[0]) << kind.name << ", " << N;
        EXPECT_NEAR(exposed[0], seconds[0] - 3e-3, 1e-9);
        // Blocks may differ by an element, and the mirrored rank takes its own for its neighbour's.
        EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(bytes[1]), 1e-4 * static_cast<double>(bytes[0]))
            << kind.name << ", " << N;
      }
    }
}

/// The more urgent one overtakes, although it was submitted later.
TEST(VirtualTime, TheMoreUrgentEndsFirst) {
  run_in_virtual_time({.ranks = 2, .links = kGigabit}, [](VirtualEngine& engine) {
    const int slots = engine.reserve_slots(2);
    std::vector<float> large(4'000'000), small(100'000);
    const Ticket first = engine.submit({.name = "large", .slot = slots, .priority = 0, .body = [&](Communicator& comm) {
                                          return sum(comm, slice(large), "ring", {});
                                        }});
    engine.compute(1e-3);
    const Ticket second =
        engine.submit({.name = "small", .slot = slots + 1, .priority = 1, .body = [&](Communicator& comm) {
                         return sum(comm, slice(small), "ring", {});
                       }});
    engine.wait(second);
    const double small_ended = engine.now();
    engine.wait(first);
    EXPECT_LT(small_ended, 0.1);
    EXPECT_NEAR(engine.now(), 4 * 4'100'000 * 8 / 1e9, 0.02);
  });
}

TEST(VirtualTime, RanksThatWaitForEachOtherEndWithASentence) {
  const auto run = [] {
    run_in_virtual_time({.ranks = 3, .links = kGigabit}, [](VirtualEngine& engine) {
      std::byte b{};
      engine.run("waiting in vain", [&](Communicator& comm) -> Task<> {
        co_await comm.recv((comm.rank() + 1) % 3, Slice<std::byte>(&b, 1));
      });
    });
  };
  expect_error<CommError>(run,
                          {"virtual time: all ranks wait for each other: rank 0 in waiting in vain waits for rank 1"});
}

TEST(VirtualTime, OneRanksErrorEndsAll) {
  const auto run = [] {
    run_in_virtual_time({.ranks = 3, .links = kGigabit}, [](VirtualEngine& engine) {
      if (engine.rank() == 1) throw DataError("a broken file");
      std::vector<float> x(10);
      engine.run("sum", [&](Communicator& comm) { return sum(comm, slice(x), "ring", {}); });
    });
  };
  EXPECT_EQ(error_of<DataError>(run), "a broken file");
}

}  // namespace
}  // namespace laconic::dist
