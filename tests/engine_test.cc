#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "core/base/clock.h"
#include "dist/engine/busy.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/engine/thread_engine.h"
#include "dist/transport/local.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"
#include "tests/temp_folder.h"

namespace laconic::dist {
namespace {

Task<> barrier_of_one(Communicator&) { co_return; }

TEST(Engine, KeepsManyCollectivesInFlightWhateverTheOrderOfSubmission) {
  constexpr int kOperations = 60;
  for (int N : {1, 2, 3, 5})
    on_ranks(N, [&](Worker& w) {
      const int slots = w.engine.reserve_slots(kOperations);
      for (int round = 0; round < 3; ++round) {
        std::vector<std::vector<float>> x(kOperations);
        std::vector<Ticket> tickets(kOperations);
        for (int j = 0; j < kOperations; ++j) {
          const int i =
              (j * 7 + w.rank * 13) % kOperations;  // another order on every rank: 7 and 60 have no factor in common
          auto& mine = x[static_cast<std::size_t>(i)];
          mine.assign(static_cast<std::size_t>(17 * i), static_cast<float>(i + w.rank));
          tickets[static_cast<std::size_t>(i)] = w.engine.submit(
              {.name = "allreduce", .slot = slots + i, .priority = i * w.rank, .body = [&mine, i](Communicator& comm) {
                 return i % 2 == 0 ? ring_allreduce(comm, slice(mine)) : butterfly_allreduce(comm, slice(mine));
               }});
        }
        for (int i = kOperations - 1; i >= 0; --i) {
          w.engine.wait(tickets[static_cast<std::size_t>(i)]);
          for (float v : x[static_cast<std::size_t>(i)])
            ASSERT_EQ(v, static_cast<float>(N * i + N * (N - 1) / 2)) << "operation " << i;
        }
      }
    });
}

TEST(Engine, RunsOperationsOfOneSlotInTheOrderOfSubmission) {
  on_ranks(3, [&](Worker& w) {
    const int slot = w.engine.reserve_slots(1);
    std::vector<int> order;
    std::vector<std::vector<float>> x(20, std::vector<float>(100, 1.0f));
    for (int i = 0; i < 20; ++i)
      (void)w.engine.submit(
          {.name = "same slot", .slot = slot, .priority = i, .body = [&, i](Communicator& comm) -> Task<> {
             const Slice<float> mine = slice(x[static_cast<std::size_t>(i)]);
             co_await ring_allreduce(comm, mine);
             order.push_back(i);
           }});
    w.engine.drain();
    std::vector<int> expected(20);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  });
}

TEST(Engine, OperationsThatNeedEachOtherInOppositePrioritiesDoNotDeadlock) {
  on_ranks(4, [&](Worker& w) {
    const int slots = w.engine.reserve_slots(2);
    std::vector<float> a(50'000, 1.0f), b(50'000, 2.0f);
    const int sign = w.rank % 2 == 0 ? 1 : -1;
    const Ticket first =
        w.engine.submit({.name = "a", .slot = slots, .priority = sign, .body = [&](Communicator& comm) {
                           return ring_allreduce(comm, slice(a));
                         }});
    const Ticket second =
        w.engine.submit({.name = "b", .slot = slots + 1, .priority = -sign, .body = [&](Communicator& comm) {
                           return ring_allreduce(comm, slice(b));
                         }});
    w.engine.wait(second);
    w.engine.wait(first);
    EXPECT_EQ(a[49'999], 4.0f);
    EXPECT_EQ(b[0], 8.0f);
  });
}

/// As on_ranks, with this window in front of the network between threads.
void on_windowed_ranks(int N, SendWindow window, const std::function<void(Engine&)>& f) {
  Watchdog watchdog(600);
  const auto hub = std::make_shared<LocalHub>(N);
  std::vector<std::thread> threads;
  for (int r = 0; r < N; ++r)
    threads.emplace_back([&, r] {
      ThreadEngine engine([&] {
        auto transport = std::make_unique<LocalTransport>(hub, r);
        transport->set_window(window);
        return transport;
      });
      f(engine);
      engine.drain();
    });
  for (std::thread& t : threads) t.join();
}

TEST(Engine, AnyOrderOfSubmissionEndsBehindASendWindow) {
  // Each rank submits in its own order and waits for each operation before it submits the next but two, so that sends
  // of some hold the places while their receivers wait for others.
  constexpr int kOperations = 7;
  for (int places : {1, 2})
    for (int N : {2, 3, 4})
      on_windowed_ranks(N, {.messages = places, .small_bytes = 0, .stall_seconds = 0.002}, [&](Engine& engine) {
        const int slots = engine.reserve_slots(kOperations);
        std::vector<std::vector<float>> x(kOperations);
        std::vector<Ticket> tickets(kOperations);
        for (int j = 0; j < kOperations; ++j) {
          const auto i = static_cast<std::size_t>((j * 3 + engine.rank() * 2) % kOperations);
          x[i].assign(100'000 + i, static_cast<float>(engine.rank() + 1));
          tickets[static_cast<std::size_t>(j)] = engine.submit(
              {.name = "ring", .slot = slots + static_cast<int>(i), .priority = j, .body = [&, i](Communicator& comm) {
                 return ring_allreduce(comm, slice(x[i]), 5);
               }});
        }
        engine.drain();
        for (const auto& v : x) EXPECT_EQ(v.back(), static_cast<float>(N * (N + 1) / 2));
      });
}

TEST(Engine, ASendWhoseReceiverWaitsForAnotherOperationFirstGivesItsPlaceAway) {
  on_windowed_ranks(2, {.messages = 1, .small_bytes = 0, .stall_seconds = 0.002}, [](Engine& engine) {
    const int slots = engine.reserve_slots(2);
    std::vector<float> a(1000, 1.0f), b(1000, 2.0f);
    const auto submit = [&](int slot, std::vector<float>& x) {
      return engine.submit({.name = "ring", .slot = slot, .priority = 0, .body = [&x](Communicator& comm) {
                              return ring_allreduce(comm, slice(x));
                            }});
    };
    if (engine.rank() == 0) {
      const Ticket first = submit(slots, a);  // holds the only place
      engine.wait(submit(slots + 1, b));
      engine.wait(first);
    } else {
      engine.wait(submit(slots + 1, b));
      engine.wait(submit(slots, a));
    }
    EXPECT_EQ(a[0], 2.0f);
    EXPECT_EQ(b[999], 4.0f);
  });
}

TEST(Engine, HandsTheExceptionOfAnOperationToWhoeverWaits) {
  on_ranks(2, [&](Worker& w) {
    const Ticket ticket =
        w.engine.submit({.name = "bad", .slot = 0, .priority = 0, .body = [](Communicator&) -> Task<> {
                           throw DataError("the packet is torn");
                           co_return;
                         }});
    EXPECT_EQ(error_of<Error>([&] { w.engine.wait(ticket); }), "the packet is torn");
    w.engine.run("barrier", barrier);  // the engine itself goes on
  });
}

TEST(Engine, OneRanksErrorEndsAllRanksWithItsSentence) {
  for (int N : {1, 2, 4}) {
    std::atomic<int> told{0};
    const std::string sentence = error_of<Error>([&] {
      on_ranks(N, [&](Worker& w) {
        if (w.rank == N - 1) throw DataError("batch 7 has a label out of range");
        const std::string seen = error_of<Error>([&] { w.engine.run("barrier", barrier); });
        if (seen == "batch 7 has a label out of range") ++told;
        throw CommError(seen);
      });
    });
    EXPECT_EQ(sentence, "batch 7 has a label out of range");
    EXPECT_EQ(told, N - 1);
  }
}

TEST(Engine, ARankThatLeavesByAnExceptionFreesEveryTransferBeforeTheMemoryGoes) {
  // Half-finished rings of all sizes; the address and thread sanitizers watch.
  for (int repeat = 0; repeat < 10; ++repeat)
    EXPECT_EQ(error_of<Error>([&] {
                on_ranks(3, [&](Worker& w) {
                  const int slots = w.engine.reserve_slots(8);
                  std::vector<std::vector<float>> x(8);
                  struct Guard {  // as a strategy does
                    Engine& engine;
                    ~Guard() { engine.halt(); }
                  } guard{w.engine};
                  for (int i = 0; i < 8; ++i) {
                    if (w.rank == 2 && i == 5) throw DataError("enough");
                    auto& mine = x[static_cast<std::size_t>(i)];
                    mine.assign(100'000, 1.0f);
                    (void)w.engine.submit(
                        {.name = "ring", .slot = slots + i, .priority = 0, .body = [&mine](Communicator& comm) {
                           return ring_allreduce(comm, slice(mine));
                         }});
                  }
                  w.engine.drain();
                });
              }),
              "enough");
}

TEST(Engine, AnUrgentOperationOvertakesALargeOneBetweenItsPieces) {
  Watchdog watchdog(600);
  const LinkOptions link{.all = LinkSpec::parse("40mbit,50us", "--link")};
  run_workers({.workers = 2, .timeout_seconds = 60, .link = link}, [](Worker& w) {
    const int slots = w.engine.reserve_slots(2);
    std::vector<float> large(3 << 20, 1.0f), small(64 << 10, 1.0f);  // 12 pieces, messages of 512 KiB; 128 KiB
    std::vector<std::string> ended;
    std::uint64_t bytes_before = 0, bytes_after = 0;
    (void)w.engine.submit({.name = "large", .slot = slots, .priority = 0, .body = [&](Communicator& comm) -> Task<> {
                             const Slice<float> x = slice(large);
                             co_await ring_allreduce(comm, x);
                             ended.push_back("large");
                           }});
    (void)w.engine.submit(
        {.name = "urgent", .slot = slots + 1, .priority = 1, .body = [&](Communicator& comm) -> Task<> {
           const Slice<float> x = slice(small);
           co_await barrier(comm);  // now both are here
           bytes_before = w.engine.counters().sent.bytes;
           co_await ring_allreduce(comm, x);
           bytes_after = w.engine.counters().sent.bytes;
           ended.push_back("urgent");
         }});
    w.engine.drain();
    EXPECT_EQ(ended, (std::vector<std::string>{"urgent", "large"}));
    EXPECT_EQ(large.back(), 2.0f);
    EXPECT_EQ(small.back(), 2.0f);
    // Its own two messages, and for each of them two places and what came after them. First come, first served would be
    // eight pieces under way before each of the two.
    EXPECT_LE(bytes_after - bytes_before, 256u * 1024 + 7 * 512 * 1024);
  });
}

/// Takes part in nothing until another rank has ended all.
void stay_away(Worker& w) {
  while (error_of<Error>([&] {
           (void)w.engine.submit({.name = "look", .slot = 0, .priority = 0, .body = barrier_of_one});
         }).empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

struct HaltAtEnd {
  Engine& engine;
  ~HaltAtEnd() { engine.halt(); }
};

void reduce_one(Worker& w, int slot, const std::string& name) {
  std::vector<float> x(100, 1.0f);
  const HaltAtEnd halt{w.engine};
  const Ticket ticket = w.engine.submit({.name = name, .slot = slot, .priority = 0, .body = [&](Communicator& comm) {
                                           return ring_allreduce(comm, slice(x));
                                         }});
  w.engine.wait(ticket);
}

TEST(Engine, SaysAfterTheTimeOutWhatEveryRankWaitsForAndWhoIsMissing) {
  const std::string sentence = error_of<Error>([&] {
    on_ranks(
        3,
        [&](Worker& w) {
          const int slot = w.engine.reserve_slots(1);
          w.engine.run("hello", barrier);
          if (w.rank == 1)
            stay_away(w);  // alive
          else
            reduce_one(w, slot, "allreduce conv1.weight");
        },
        8.0);
  });
  EXPECT_TRUE(sentence.find("engine: rank 0 of 3") == 0 || sentence.find("engine: rank 2 of 3") == 0) << sentence;
  EXPECT_NE(sentence.find("allreduce conv1.weight waits for rank"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(". Rank 1 computes; its last operation, "), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("`timeout`"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\n  rank 0: allreduce conv1.weight waits for rank 2 (up to"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\n  rank 1: computes"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\n  rank 2: allreduce conv1.weight waits for rank 1 (up to"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(" bytes came and "), std::string::npos) << sentence;
}

TEST(Engine, TellsTheErrorOfAnOperationForWhichAnotherWaits) {
  const std::string sentence = error_of<DataError>([&] {
    on_ranks(
        2,
        [](Worker& w) {
          const int slots = w.engine.reserve_slots(2);
          (void)w.engine.submit({.name = "serve", .slot = slots, .body = [](Communicator&) -> Task<> {
                                   throw DataError("it holds another model");
                                   co_return;
                                 }});
          std::vector<std::byte> answer(4);
          const HaltAtEnd halt{w.engine};
          const int server = 1 - w.rank;
          w.engine.wait(w.engine.submit({.name = "push", .slot = slots + 1, .body = [&](Communicator& comm) -> Task<> {
                                           const Slice<std::byte> here = slice(answer);
                                           co_await comm.recv(server, here);
                                         }}));
        },
        4.0);
  });
  EXPECT_EQ(sentence, "it holds another model");
}

TEST(Engine, WaitsPatientlyForARankThatLives) {
  on_ranks(
      3,
      [](Worker& w) {
        w.engine.run("hello", barrier);
        if (w.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5000));  // as in a save to a slow disk
        w.engine.run("meeting", barrier, kCpu, true);
      },
      4.0);  // a rank that gets no processor for so long would count as silent
}

/// What is written to stderr while it lives.
class KeptStderr {
 public:
  KeptStderr() : before_(::dup(2)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    ::dup2(file_, 2);
  }
  ~KeptStderr() { ::dup2(before_, 2), ::close(before_), ::close(file_); }
  KeptStderr(const KeptStderr&) = delete;
  KeptStderr& operator=(const KeptStderr&) = delete;

  std::string text() const { return file_text(path_); }
  int times(const std::string& part) const {
    int found = 0;
    const std::string all = text();
    for (auto at = all.find(part); at != all.npos; at = all.find(part, at + 1)) ++found;
    return found;
  }
  /// Waits until it has come so often; false after a minute.
  bool comes(const std::string& part, int often) const {
    for (int i = 0; i < 6000 && times(part) < often; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return times(part) >= often;
  }

 private:
  const TempFolder folder_;
  const std::string path_ = folder_ / "stderr";
  const int before_, file_;
};

TEST(Engine, WaitsForARankThatSaysWhatItIsBusyWith) {
  const KeptStderr kept;
  bool told = false;
  run_workers({.workers = 3, .timeout_seconds = 2, .tell_seconds = 0.02}, [&](Worker& w) {
    w.engine.run("hello", barrier);
    if (w.rank == 1) {
      const Busy busy(Busy::With::work, "evaluates");
      told = kept.comes("laconic: note: rank 1 evaluates (", 1);  // at the time-out
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    w.engine.run("meeting", barrier);
  });
  EXPECT_TRUE(told) << kept.text();
}

TEST(Engine, ARankThatWaitsForOthersIsNotBusy) {
  const std::string sentence = error_of<LostRank>([&] {
    on_ranks(
        2,
        [&](Worker& w) {
          const int slots = w.engine.reserve_slots(2);
          const Busy busy(Busy::With::work, "evaluates");
          reduce_one(w, slots + w.rank, w.rank == 0 ? "allreduce fc1" : "allreduce fc2");
        },
        2.0);
  });
  EXPECT_NE(sentence.find("saw nothing move for 2 s: allreduce fc"), std::string::npos) << sentence;
}

TEST(Engine, SaysAfterTheTimeOutWhichRankIsAtAnotherOperation) {
  const std::string sentence = error_of<Error>([&] {
    on_ranks(
        2,
        [&](Worker& w) {
          const int slots = w.engine.reserve_slots(2);
          reduce_one(w, slots + w.rank, w.rank == 0 ? "allreduce fc1" : "allreduce fc2");
        },
        8.0);
  });
  EXPECT_NE(sentence.find(sentence.find("rank 0 of 2") == 8 ? "Rank 1 is at another operation: allreduce fc2"
                                                            : "Rank 0 is at another operation: allreduce fc1"),
            std::string::npos)
      << sentence;
}

TEST(Engine, SaysAfterTheTimeOutWhoGivesNoSignOfLife) {
  std::atomic<bool> hangs{false}, over{false};
  const std::string sentence = error_of<Error>([&] {
    on_ranks(
        2,
        [&](Worker& w) {
          const int slots = w.engine.reserve_slots(2);
          const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
          if (w.rank == 0) {
            while (!hangs) nap();
            const std::string told = error_of<Error>([&] { reduce_one(w, slots, "allreduce fc1"); });
            over = true;
            throw CommError(told);
          }
          // This one's communication thread hangs, as that of a stopped process does.
          w.engine.run("hang", [&](Communicator&) -> Task<> {
            hangs = true;
            while (!over) nap();
            co_return;
          });
        },
        1.0);
  });
  EXPECT_EQ(sentence.find("engine: rank 0 of 2"), 0u) << sentence;
  EXPECT_NE(sentence.find("There is no sign of life from rank 1 since "), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\n  rank 1: says nothing"), std::string::npos) << sentence;
}

TEST(Engine, ALostRankIsNamedWhileAnotherIsBusyAndWithWhat) {
  std::atomic<bool> hangs{false}, over{false};
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  const std::string sentence = error_of<LostRank>([&] {
    on_ranks(
        3,
        [&](Worker& w) {
          const int slot = w.engine.reserve_slots(1);
          while (w.rank < 2 && !hangs) nap();
          if (w.rank == 0) {
            const std::string told = error_of<LostRank>([&] { reduce_one(w, slot, "allreduce fc1"); });
            over = true;
            throw LostRank(told);
          }
          if (w.rank == 1) {
            const Busy evaluates(Busy::With::work, "evaluates");
            const Busy waits(Busy::With::files, "waits for its data", [] { return "n01/x.JPEG"; });
            while (!over) nap();
          } else {
            w.engine.run("hang", [&](Communicator&) -> Task<> {
              hangs = true;
              while (!over) nap();
              co_return;
            });
          }
        },
        1.0);
  });
  EXPECT_NE(sentence.find("There is no sign of life from rank 2 since "), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\n  rank 1: waits for its data (n01/x.JPEG, "), std::string::npos) << sentence;
}

TEST(Engine, ARankSaysWhatFilesItWaitsForAgainAndAgain) {
  for (const int N : {1, 2}) {
    const KeptStderr kept;
    bool told = false;
    run_workers({.workers = N, .tell_seconds = 0.02}, [&](Worker& w) {
      if (w.rank == N - 1) {
        const Busy evaluates(Busy::With::work, "evaluates");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // in which nothing is to be said
        const Busy waits(Busy::With::files, "waits for its data", [] { return "n01/x.JPEG"; });
        told = kept.comes(concat("laconic: note: rank ", N - 1, " waits for its data (n01/x.JPEG, "), 2);
      }
      w.engine.run("meeting", barrier);
    });
    EXPECT_TRUE(told) << kept.text();
    EXPECT_EQ(kept.times("evaluates"), 0) << kept.text();
  }
}

TEST(Engine, CountsWhatWasSentAndHowLongTheComputeThreadWasBlocked) {
  on_ranks(2, [&](Worker& w) {
    std::vector<float> x(1000, 1.0f);
    const int slot = w.engine.reserve_slots(1);
    const EngineCounters before = w.engine.counters();
    double wall_seconds = 0;
    for (int i = 0; i < 3; ++i) {
      const auto begin = Clock::now();
      w.engine.wait(
          w.engine.submit({.name = "slow ring", .slot = slot, .priority = 0, .body = [&](Communicator& comm) -> Task<> {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             const Slice<float> mine = slice(x);
                             co_await ring_allreduce(comm, mine);
                           }}));
      wall_seconds += seconds_since(begin);
    }
    const EngineCounters after = w.engine.counters();
    EXPECT_EQ(after.sent.bytes - before.sent.bytes, 3 * 4000u);
    EXPECT_EQ(after.sent.messages - before.sent.messages, 3 * 2u);
    EXPECT_GE(after.comm_seconds - before.comm_seconds, 0.06);  // it slept so long at least
    EXPECT_GT(after.exposed_seconds, before.exposed_seconds);
    EXPECT_LE(after.exposed_seconds - before.exposed_seconds, wall_seconds);
  });
}

TEST(Engine, ThrowsFromItsConstructorWhatTheTransportThrows) {
  EXPECT_EQ(error_of<Error>([] {
              ThreadEngine engine([]() -> std::unique_ptr<Transport> { throw UsageError("no network here"); });
            }),
            "no network here");
}

TEST(World, AContradictionWithMpirunIsAUsageError) {
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  EXPECT_EQ(ranks_under_mpirun(), 3);
  EXPECT_THROW(run_workers({.workers = 2}, [](Worker&) {}), UsageError);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(ranks_under_mpirun(), 0);
}

}  // namespace
}  // namespace laconic::dist
