#include "dist/transport/linked.h"

#include <sys/resource.h>
#include <unistd.h>

#include <numeric>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/collective/ring_allreduce.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;

const LinkOptions kFast{.all = {.bits_per_second = 10'000'000'000, .latency = 20us, .jitter = 50us}};

void on_linked_ranks(int N, const LinkOptions& link, const std::function<void(Worker&)>& f,
                     double timeout_seconds = 60) {
  Watchdog watchdog(600);
  run_workers({.workers = N, .timeout_seconds = timeout_seconds, .link = link}, f);
}

double seconds_of(const std::function<void()>& f) {
  const auto begin = Clock::now();
  f();
  return seconds_since(begin);
}

std::vector<float> numbers(int rank, std::size_t n) {
  Random random(5, Purpose::test, static_cast<std::uint64_t>(rank));
  std::vector<float> x(n);
  for (float& v : x) v = random.normal();
  return x;
}

TEST(Linked, SumsHaveTheSameBitsAsWithoutALink) {
  for (int N : {2, 3, 5, 8})
    for (std::size_t n : {0, 1, 7, 1000, 100'003}) {
      std::vector<std::vector<float>> plain(static_cast<std::size_t>(N)), linked(plain);
      const auto sums = [&](std::vector<std::vector<float>>& x) {
        return [&, n](Worker& w) {
          auto& mine = x[static_cast<std::size_t>(w.rank)] = numbers(w.rank, n);
          w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(mine)); });
          w.engine.run("butterfly", [&](Communicator& comm) { return butterfly_allreduce(comm, slice(mine)); });
        };
      };
      on_ranks(N, sums(plain));
      on_linked_ranks(N, kFast, sums(linked));
      for (int r = 0; r < N; ++r)
        EXPECT_TRUE(same_bits(plain[static_cast<std::size_t>(r)], linked[static_cast<std::size_t>(r)]))
            << N << " ranks, " << n;
    }
}

TEST(Linked, ManyOperationsInAnyOrderEndEverywhere) {
  constexpr int N = 4, kOperations = 40;
  on_linked_ranks(N, kFast, [&](Worker& w) {
    const int slots = w.engine.reserve_slots(kOperations);
    std::vector<std::vector<float>> x(kOperations);
    std::vector<Ticket> tickets(kOperations);
    for (int j = 0; j < kOperations; ++j) {
      const int i = (j * 7 + w.rank * 13) % kOperations;
      auto& mine = x[static_cast<std::size_t>(i)];
      mine.assign(static_cast<std::size_t>(997 * i), static_cast<float>(i + w.rank));
      tickets[static_cast<std::size_t>(i)] = w.engine.submit(
          {.name = "sum", .slot = slots + i, .priority = i * w.rank, .body = [&mine](Communicator& comm) {
             return ring_allreduce(comm, slice(mine));
           }});
    }
    for (int i = 0; i < kOperations; ++i) {
      w.engine.wait(tickets[static_cast<std::size_t>(i)]);
      for (float v : x[static_cast<std::size_t>(i)]) ASSERT_EQ(v, static_cast<float>(N * i + N * (N - 1) / 2));
    }
  });
}

TEST(Linked, IsNotFasterThanTheLink) {
  // A ring of 4 over 100 Mbit/s and 1 ms: 6 steps of 250,000 bytes = 6 (20 + 1) ms.
  std::vector<float> x[4];
  for (auto& v : x) v.assign(250'000, 1.0f);
  const double seconds = seconds_of([&] {
    on_linked_ranks(4, {.all = {.bits_per_second = 100'000'000, .latency = 1ms}}, [&](Worker& w) {
      w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(x[w.rank])); });
    });
  });
  EXPECT_GE(seconds, 6 * 0.020);
}

TEST(Linked, ASlowWorkerSlowsWhoeverTalksToIt) {
  LinkOptions link = kFast;
  link.of[2] = {.bits_per_second = 8'000'000, .latency = 10ms};
  const double seconds = seconds_of([&] {
    on_linked_ranks(3, link, [&](Worker& w) {
      std::vector<std::byte> bytes(50'000);
      w.engine.run("to the next", [&](Communicator& comm) -> Task<> {
        const Slice<std::byte> mine(bytes.data(), bytes.size());
        if (comm.rank() == 1) co_await comm.send(2, mine);
        if (comm.rank() == 2) co_await comm.recv(1, mine);
      });
    });
  });
  EXPECT_GE(seconds, 0.060);  // 50 ms and the latency
}

TEST(Linked, AMessageWaitsInABufferUntilItsReceiverAsks) {
  on_linked_ranks(2, kFast, [&](Worker& w) {
    std::vector<float> x(100'000, w.rank == 0 ? 7.0f : 0.0f), more(x);
    const auto send = [](std::vector<float>& v) {
      return [&v](Communicator& comm) -> Task<> { co_await comm.send(1, slice(v).bytes()); };
    };
    const auto recv = [](std::vector<float>& v) {
      return [&v](Communicator& comm) -> Task<> { co_await comm.recv(0, slice(v).bytes()); };
    };
    const int slots = w.engine.reserve_slots(2);
    if (w.rank == 0) {
      w.engine.wait(w.engine.submit({.name = "first", .slot = slots, .body = send(x)}));  // ends although nobody asked
      x.assign(x.size(), -1.0f);
      w.engine.wait(w.engine.submit({.name = "second", .slot = slots + 1, .body = send(more)}));
    } else {
      w.engine.wait(w.engine.submit({.name = "second", .slot = slots + 1, .body = recv(more)}));
      w.engine.wait(w.engine.submit({.name = "first", .slot = slots, .body = recv(x)}));
      EXPECT_EQ(x, std::vector<float>(100'000, 7.0f));
      EXPECT_EQ(more, std::vector<float>(100'000, 7.0f));
    }
  });
}

TEST(Linked, AMessageThatDoesNotFitIsAnErrorOfTheReceiver) {
  const std::string sentence = error_of<Error>([&] {
    on_linked_ranks(2, kFast, [&](Worker& w) {
      std::vector<float> x(w.rank == 0 ? 100 : 50);
      w.engine.run("misfit", [&](Communicator& comm) -> Task<> {
        if (comm.rank() == 0) co_await comm.send(1, slice(x).bytes());
        if (comm.rank() == 1) co_await comm.recv(0, slice(x).bytes());
      });
      w.engine.run("barrier", barrier);
    });
  });
  EXPECT_NE(sentence.find("rank 0 sent 400 bytes to rank 1, which has room for 200"), std::string::npos) << sentence;
}

TEST(Linked, OneRanksErrorEndsAllWhileMessagesAreOnTheWire) {
  // 60 s of wire time are under way when rank 1 fails.
  const std::string sentence = error_of<Error>([&] {
    on_linked_ranks(3, {.all = {.bits_per_second = 1'000'000, .latency = 1ms}}, [&](Worker& w) {
      std::vector<float> x(2'000'000, 1.0f);
      struct Halt {
        Engine& engine;
        ~Halt() { engine.halt(); }
      } halt{w.engine};
      const Ticket ticket = w.engine.submit(
          {.name = "large", .slot = 0, .body = [&](Communicator& comm) { return ring_allreduce(comm, slice(x)); }});
      if (w.rank == 1) throw DataError("batch 7 has a label out of range");
      w.engine.wait(ticket);
    });
  });
  EXPECT_EQ(sentence, "batch 7 has a label out of range");
}

TEST(Linked, ASilentRankIsFoundByTheTimeOut) {
  const std::string sentence = error_of<Error>([&] {
    on_linked_ranks(
        2, kFast,
        [&](Worker& w) {
          std::vector<float> x(10);
          if (w.rank == 0)
            w.engine.run("lonely", [&](Communicator& comm) -> Task<> { co_await comm.recv(1, slice(x).bytes()); });
          else  // stays away until rank 0 has ended all
            while (error_of<Error>([&] {
                     w.engine.wait(
                         w.engine.submit({.name = "look", .body = [](Communicator&) -> Task<> { co_return; }}));
                   }).empty())
              std::this_thread::sleep_for(10ms);
        },
        0.2);
  });
  EXPECT_NE(sentence.find("lonely waits for rank 1"), std::string::npos) << sentence;
}

TEST(Linked, ComputeThreadsGiveWayAndTheCallersDoesNot) {
  const auto niceness = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  const int before = niceness();
  on_linked_ranks(2, kFast, [&](Worker& w) {
    EXPECT_EQ(niceness(), 19);
    int in_engine = -1;
    w.engine.run("nice", [&](Communicator& comm) -> Task<> {
      in_engine = niceness();
      co_await barrier(comm);
    });
    EXPECT_EQ(in_engine, before);
  });
  EXPECT_EQ(niceness(), before);
}

TEST(Linked, EveryDeliveryIsCounted) {
  const WorldReport report = run_workers({.workers = 4, .link = kFast}, [](Worker& w) {
    std::vector<float> x(1000, 1.0f);
    w.engine.run("ring", [&](Communicator& comm) { return ring_allreduce(comm, slice(x)); });
  });
  EXPECT_EQ(report.link.deliveries, 4u * 6u);
}

TEST(Linked, OneWorkerIsRefused) {
  EXPECT_THROW(run_workers({.workers = 1, .link = kFast}, [](Worker&) {}), UsageError);
}

}  // namespace
}  // namespace laconic::dist
