// Operations on the memory of a CUDA device: their order among what the compute thread asks of it, with nobody waiting.
#ifdef LACONIC_CUDA_EMULATED
#include <cuda_runtime.h>
#endif

#include "core/raw.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/collective/ring_allreduce.h"
#include "tests/added_later.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;

const LinkOptions kFastLink{.all = {.bits_per_second = 10'000'000'000, .latency = 20us}};

/// Over memory of the device itself, and over a network that moves host memory.
class EngineOnDevice : public ::testing::TestWithParam<std::optional<LinkOptions>> {
 protected:
  void SetUp() override { NEEDS_CUDA(); }
  void on_ranks(int N, const std::function<void(Worker&)>& f, double timeout_seconds = 60) {
    Watchdog watchdog(600);
    run_workers({.workers = N, .timeout_seconds = timeout_seconds, .link = GetParam()}, f);
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, EngineOnDevice, ::testing::Values(std::nullopt, std::optional(kFastLink)),
                         [](const auto& info) { return info.param ? "Linked" : "Local"; });

std::vector<float> sum_of_values(int N, std::size_t n) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(N));
  dist::on_ranks(N, [&](Worker& w) {
    auto& x = all[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
    w.engine.run("sum", [&](Communicator& comm) { return ring_allreduce(comm, slice(x)); });
  });
  return all[0];
}

TEST_P(EngineOnDevice, TakesWhatWasJustAskedForAndWhatIsAskedNextSeesTheSum) {
  for (int N : {GetParam() ? 2 : 1, 3})
    for (std::size_t n : {0, 1, 33, 1003}) {
      const std::vector<float> expected = sum_of_values(N, n);
      on_ranks(N, [&](Worker& w) {
        const int slot = w.engine.reserve_slots(1);
        const Tensor x = added_later(values_of(w.rank, n), kCuda);
        const Ticket ticket =
            w.engine.submit({.name = "sum", .slot = slot, .device = kCuda, .body = [&](Communicator& comm) {
                               return ring_allreduce(comm, x.slice());
                             }});
        w.engine.wait(ticket);
        const Tensor copy = Tensor::zeros(x.shape(), DType::f32, kCuda);
        add_in_place(copy.slice(), x.slice());
        raw::fill(x, 7.0f);
        EXPECT_TRUE(same_bits(copy.to_vector(), expected)) << N << " ranks, " << n;
      });
    }
}

TEST_P(EngineOnDevice, RunsOnTheCallingThreadToo) {
  for (std::size_t n : {1, 1003}) {
    const std::vector<float> expected = sum_of_values(3, n);
    on_ranks(3, [&](Worker& w) {
      const Tensor x = added_later(values_of(w.rank, n), kCuda);
      w.engine.run(
          "sum", [&](Communicator& comm) { return ring_allreduce(comm, x.slice()); }, kCuda);
      EXPECT_TRUE(same_bits(x.to_vector(), expected));
      w.engine.run(
          "broadcast", [&](Communicator& comm) { return broadcast(comm, x.slice().bytes(), 2); }, kCuda);
      EXPECT_TRUE(same_bits(x.to_vector(), expected));
    });
  }
}

TEST_P(EngineOnDevice, KeepsManyInFlightWhateverTheOrderOfSubmissionAndReusesTheirMemory) {
  constexpr int N = 3, kOperations = 12;
  on_ranks(N, [&](Worker& w) {
    const int slots = w.engine.reserve_slots(kOperations);
    for (int round = 0; round < 2; ++round) {
      std::vector<Tensor> x(kOperations);
      std::vector<Ticket> tickets(kOperations);
      for (int j = 0; j < kOperations; ++j) {
        const int i = (j * 7 + w.rank * 5) % kOperations;
        const Tensor& mine = x[static_cast<std::size_t>(i)] =
            added_later(std::vector<float>(static_cast<std::size_t>(17 * i), static_cast<float>(i + w.rank)), kCuda);
        tickets[static_cast<std::size_t>(i)] = w.engine.submit({.name = "sum",
                                                                .slot = slots + i,
                                                                .priority = i * w.rank,
                                                                .device = kCuda,
                                                                .body = [&mine, i](Communicator& comm) {
                                                                  return i % 2 == 0
                                                                             ? ring_allreduce(comm, mine.slice())
                                                                             : butterfly_allreduce(comm, mine.slice());
                                                                }});
      }
      std::vector<Tensor> sums;
      for (int i = 0; i < kOperations; ++i) {
        w.engine.wait(tickets[static_cast<std::size_t>(i)]);
        const Tensor& mine = x[static_cast<std::size_t>(i)];
        sums.push_back(Tensor::zeros(mine.shape(), DType::f32, kCuda));
        add_in_place(sums.back().slice(), mine.slice());
        x[static_cast<std::size_t>(i)] = {};
      }
      for (int i = 0; i < kOperations; ++i)
        for (float v : sums[static_cast<std::size_t>(i)].to_vector())
          ASSERT_EQ(v, static_cast<float>(N * i + N * (N - 1) / 2)) << "operation " << i;
    }
  });
}

TEST_P(EngineOnDevice, AnOperationThatWaitsForTheDeviceLeavesTheThreadToOthers) {
  on_ranks(2, [&](Worker& w) {
    const int slots = w.engine.reserve_slots(2);
    const Tensor x = added_later(values_of(w.rank, 300), kCuda);
    const Pinned there(x.bytes(), kCuda);
    bool summed = false;  // the communication thread's
    int looks = 0;
    std::vector<float> sum{1};
    const Ticket late = w.engine.submit(
        {.name = "look", .slot = slots, .priority = 1, .device = kCuda, .body = [&](Communicator& comm) -> Task<> {
           copy_bytes_later(there.data(), kCpu, x.raw_data(), kCuda, x.bytes());
           for (; looks == 0 || (!summed && looks < 1'000'000); ++looks) co_await comm.device_comes(kCuda);
         }});
    const Ticket other = w.engine.submit({.name = "sum", .slot = slots + 1, .body = [&](Communicator& comm) -> Task<> {
                                            co_await ring_allreduce(comm, slice(sum));
                                            summed = true;
                                          }});
    w.engine.wait(late);
    EXPECT_LT(looks, 1'000'000);
    w.engine.wait(other);
    EXPECT_EQ(sum, std::vector<float>{2});
    const auto* const values = reinterpret_cast<const float*>(there.data());
    EXPECT_TRUE(same_bits(std::vector<float>(values, values + 300), values_of(w.rank, 300)));
  });
}

TEST_P(EngineOnDevice, TheOnlyRankWaitsForItsDevice) {
  if (GetParam()) return;  // one rank has no link
  on_ranks(1, [&](Worker& w) {
    const Tensor x = added_later(values_of(3, 300), kCuda);
    const Pinned there(x.bytes(), kCuda);
    bool came = false;
    w.engine.run(
        "look",
        [&](Communicator& comm) -> Task<> {
          copy_bytes_later(there.data(), kCpu, x.raw_data(), kCuda, x.bytes());
          co_await comm.device_comes(kCuda);
          came = true;
        },
        kCuda);
    EXPECT_TRUE(came);
    const auto* const values = reinterpret_cast<const float*>(there.data());
    EXPECT_TRUE(same_bits(std::vector<float>(values, values + 300), values_of(3, 300)));
  });
}

TEST_P(EngineOnDevice, MessagesOfHostAndDeviceKeepTheirOrder) {
  on_ranks(2, [&](Worker& w) {
    const int slot = w.engine.reserve_slots(1);
    const Tensor x = w.rank == 0 ? added_later(values_of(5, 300), kCuda) : Tensor::zeros({300}, DType::f32, kCuda);
    std::vector<float> head{1, 2, 3}, tail{4};
    const auto body = [&](Communicator& comm) -> Task<> {
      const Slice<std::byte> first = slice(head).bytes(), middle = x.slice().bytes(), last = slice(tail).bytes();
      if (w.rank == 0) {
        const Transfer a = comm.send(1, first), b = comm.send(1, middle), c = comm.send(1, last);
        co_await a;
        co_await b;
        co_await c;
      } else {
        for (const Slice<std::byte>& in : {first, middle, last}) co_await recv_exactly(comm, 0, in);
      }
    };
    if (w.rank == 1) head = {0, 0, 0}, tail = {0};
    w.engine.wait(w.engine.submit({.name = "three", .slot = slot, .device = kCuda, .body = body}));
    EXPECT_EQ(head, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(tail, std::vector<float>{4});
    EXPECT_TRUE(same_bits(x.to_vector(), values_of(5, 300)));
  });
}

TEST_P(EngineOnDevice, AnOperationThatDoesNotNameItsDeviceIsRefused) {
  on_ranks(2, [&](Worker& w) {
    const Tensor x = Tensor::zeros({10}, DType::f32, kCuda);
    const std::string error = error_of<Error>(
        [&] { w.engine.run("sum", [&](Communicator& comm) { return ring_allreduce(comm, x.slice()); }); });
    EXPECT_NE(error.find("Operation::device"), std::string::npos) << error;
  });
}

TEST_P(EngineOnDevice, ARankThatLeavesByAnExceptionLeavesNoCopyBehind) {
  const std::string error = error_of<Error>([&] {
    on_ranks(3, [&](Worker& w) {
      struct Guard {
        Engine& engine;
        ~Guard() { engine.halt(); }
      };
      const int slots = w.engine.reserve_slots(8);
      std::vector<Tensor> x;
      const Guard guard{w.engine};
      for (int i = 0; i < 8; ++i) x.push_back(added_later(values_of(i, 1000), kCuda));
      std::vector<Ticket> tickets;
      for (int i = 0; i < (w.rank == 1 ? 4 : 8); ++i)
        tickets.push_back(w.engine.submit({.name = "sum",
                                           .slot = slots + i,
                                           .device = kCuda,
                                           .body = [&mine = x[static_cast<std::size_t>(i)]](Communicator& comm) {
                                             return ring_allreduce(comm, mine.slice());
                                           }}));
      require<Error>(w.rank != 1, "rank 1 has had enough.");
      for (const Ticket& ticket : tickets) w.engine.wait(ticket);
    });
  });
  EXPECT_NE(error.find("had enough"), std::string::npos) << error;
}

TEST_P(EngineOnDevice, CountsTheHostMemoryThatItsMessagesPassThrough) {
  constexpr std::size_t n = 10'000;
  on_ranks(2, [&](Worker& w) {
    const Tensor x = Tensor::zeros({n}, DType::f32, kCuda);
    w.engine.run(
        "broadcast", [&](Communicator& comm) { return broadcast(comm, x.slice().bytes()); }, kCuda);
    EXPECT_EQ(w.engine.counters().peak_buffer_bytes, GetParam() ? n * sizeof(float) : 0u);
    EXPECT_EQ(w.engine.counters().sent.bytes, w.rank == 0 ? n * sizeof(float) : 0u);
  });
}

#ifdef LACONIC_CUDA_EMULATED
TEST_P(EngineOnDevice, ADeviceThatBreaksEndsAllRanksWithASentence) {
  struct Mended {
    ~Mended() { emulated_cuda::break_devices(false); }
  } mended;
  for (const int at : {0, 3, 20}) {
    const std::string error = error_of<Error>([&] {
      on_ranks(
          2,
          [&](Worker& w) {
            const int slot = w.engine.reserve_slots(1);
            const Tensor x = Tensor::zeros({1003}, DType::f32, kCuda);
            for (int i = 0; i < 100; ++i) {
              if (i == at && w.rank == 0) emulated_cuda::break_devices(true);
              w.engine.wait(
                  w.engine.submit({.name = "sum", .slot = slot, .device = kCuda, .body = [&](Communicator& comm) {
                                     return ring_allreduce(comm, x.slice());
                                   }}));
            }
          },
          10);
    });
    EXPECT_NE(error.find("unspecified launch failure"), std::string::npos) << error;
    emulated_cuda::break_devices(false);
  }
}
#endif

}  // namespace
}  // namespace laconic::dist
