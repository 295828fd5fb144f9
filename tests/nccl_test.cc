#include "dist/cuda/nccl.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#ifdef LACONIC_CUDA_EMULATED
#include <nccl.h>
#endif

#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/cuda/nccl_functions.h"
#include "dist/method/allreduce_sync.h"
#include "tests/added_later.h"
#include "tests/error_of.h"
#include "tests/installed_library.h"
#include "tests/nccl_ranks.h"
#include "tests/values_of.h"
#include "tests/whole_forward.h"

namespace laconic::dist {
namespace {

TEST_F(NcclTest, SumsWhatWasJustAskedForInTheOrderOfSubmission) {
  constexpr int kOperations = 10;
  for (const int N : sizes())
    on_ranks(N, [&](Worker& w) {
      const Device device = own_device(w);
      const int slots = w.engine.reserve_slots(kOperations);
      const std::shared_ptr<Nccl> nccl = Nccl::make(w.engine, device);
      for (int round = 0; round < 2; ++round) {
        std::vector<Tensor> x, sums;
        std::vector<Ticket> tickets;
        for (int i = 0; i < kOperations; ++i) {
          const std::size_t n = static_cast<std::size_t>(i) * 37;
          x.push_back(added_later(std::vector<float>(n, static_cast<float>(i + w.rank)), device));
          tickets.push_back(w.engine.submit({.name = "sum",
                                             .slot = slots + i,
                                             .priority = i * w.rank,  // other ranks, another order of priority
                                             .device = device,
                                             .in_order = true,
                                             .body = [x = x.back().slice(), &nccl](Communicator&) -> Task<> {
                                               nccl->allreduce(x);
                                               co_return;
                                             }}));
        }
        for (int i = kOperations - 1; i >= 0; --i) {
          w.engine.wait(tickets[static_cast<std::size_t>(i)]);
          const Tensor& mine = x[static_cast<std::size_t>(i)];
          sums.push_back(Tensor::zeros(mine.shape(), DType::f32, device));
          add_in_place(sums.back().slice(), mine.slice());
          raw::fill(mine, -1.0f);
        }
        for (int i = 0; i < kOperations; ++i)
          for (const float v : sums[static_cast<std::size_t>(kOperations - 1 - i)].to_vector())
            ASSERT_EQ(v, static_cast<float>(N * i + N * (N - 1) / 2)) << "operation " << i;
      }
    });
}

TEST_F(NcclTest, TrainsAsTheRingDoesWithTheSameBitsOnAllRanks) {
  for (const int N : sizes())
    for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
      std::map<std::string, std::vector<std::vector<float>>> values;
      for (const char* algorithm : {"ring", "nccl"}) {
        values[algorithm].resize(static_cast<std::size_t>(N));
        on_ranks(N, [&](Worker& w) {
          std::vector<std::shared_ptr<Parameter>> parameters;
          for (const Shape& shape : {Shape{30, 20}, Shape{30}, Shape{200, 30}, Shape{7}}) {
            parameters.push_back(std::make_shared<Parameter>(shape, Role::linear));
            parameters.back()->info.name = concat("p", parameters.size());
            raw::fill(parameters.back()->value(), 1.0f);
          }
          const ParameterArena arena(parameters, own_device(w));
          PlanOptions options{.bucket_bytes = 1000, .chunk_bytes = 4000};
          set_allreduce(options, algorithm);
          AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options, N),
                             [](Parameter& p, Rows rows, const StepContext& c) {
                               const std::int64_t row = p.info.elements / p.all_rows().count;
                               raw::axpy(p.value().range(rows.first * row, rows.count * row),
                                         -0.1f * static_cast<float>(c.gradient_scale),
                                         p.grad().range(rows.first * row, rows.count * row));
                             },
                             {.overlap = overlap});
          for (int step = 1; step <= 3; ++step) {
            sync.begin_step({.step = step});
            whole_forward(sync, arena);
            std::vector<std::shared_ptr<Parameter>> as_ready = arena.parameters();
            if (w.rank == 1) std::reverse(as_ready.begin(), as_ready.end());  // as a rank without samples might
            for (const auto& p : as_ready) {
              const std::vector<float> noise =
                  values_of(w.rank + 10 * step, static_cast<std::size_t>(p->info.elements));
              raw::fill(p->grad(), 0.0f);
              raw::axpy(p->grad(), 1.0f, Tensor::of(p->info.shape, noise, own_device(w)));
              raw::axpy(p->grad(), 0.1f, p->value());
              sync.gradient_ready(*p, p->all_rows());
            }
            sync.end_step();
          }
          sync.flush();
          values[algorithm][static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
        });
      }
      const auto &ring = values["ring"], &nccl = values["nccl"];
      for (const auto& v : nccl) EXPECT_TRUE(same_bits(v, nccl[0])) << N << " ranks, " << to_string(overlap);
      for (std::size_t i = 0; i < ring[0].size(); ++i) ASSERT_NEAR(nccl[0][i], ring[0][i], 1e-5);
    }
}

TEST_F(NcclTest, RefusesRanksThatShareADevice) {
  expect_error<UsageError>([] { on_ranks(2, [](Worker& w) { (void)Nccl::make(w.engine, kCuda); }); },
                           {"a GPU for each rank", "ranks 0 and 1", "take `allreduce` ring"});
}

TEST_F(NcclTest, ARankThatIsLostLeavesNoDeviceWaiting) {
  const std::string error = error_of<Error>([] {
    on_ranks(
        2,
        [](Worker& w) {
          const int slot = w.engine.reserve_slots(1);
          const std::shared_ptr<Nccl> nccl = Nccl::make(w.engine, own_device(w));
          const Tensor x = Tensor::zeros({100}, DType::f32, own_device(w));
          require<Error>(w.rank != 1, "rank 1 has had enough.");
          w.engine.wait(w.engine.submit({.name = "sum",
                                         .slot = slot,
                                         .device = own_device(w),
                                         .in_order = true,
                                         .body = [&](Communicator&) -> Task<> {
                                           nccl->allreduce(x.slice());
                                           co_return;
                                         }}));
          (void)x.to_vector();
        },
        20);
  });
  EXPECT_NE(error.find("had enough"), std::string::npos) << error;
}

#ifdef LACONIC_CUDA_EMULATED

class NcclFails : public NcclTest {
 protected:
  void TearDown() override { emulated_cuda::break_nccl(emulated_cuda::NcclFault::none); }
  /// A fault is all ranks': one of them may not break what another still starts with.
  static void let_all_start(Worker& w) {
    w.engine.run("meeting", [](Communicator& comm) { return barrier(comm); });
  }
  static void sum(NcclRank& rank, const Tensor& x) {
    rank.ask([&](Communicator&) { rank.nccl->allreduce(x.slice()); });
  }
  /// Rank 0 asks for a sum that rank 1 never comes to, then for `next`, and waits for its device.
  static void sum_without_rank_1(int time_out, const std::function<void()>& next) {
    std::atomic<bool> over{false};
    on_ranks(
        2,
        [&](Worker& w) {
          NcclRank rank(w);
          let_all_start(w);
          if (w.rank == 1) {
            while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
          }
          const Tensor x = Tensor::zeros({100}, DType::f32, own_device(w));
          sum(rank, x);
          next();
          (void)x.to_vector();
          over = true;
          w.engine.drain();
          sum(rank, x);
        },
        time_out);
  }
};

TEST_F(NcclFails, StartingWithoutAllRanksEndsByTheTimeOut) {
  emulated_cuda::break_nccl(emulated_cuda::NcclFault::never_joins);
  expect_error<CommError>(
      [] {
        on_ranks(
            2, [](Worker& w) { (void)Nccl::make(w.engine, own_device(w)); }, 8);
      },
      {"saw nothing move for 8 s", "starting NCCL waits for all ranks to start NCCL"});
}

TEST_F(NcclFails, RanksThatAreNeverJoinedEndTheFirstSumByTheTimeOut) {
  expect_error<CommError>(
      [] {
        on_ranks(
            2,
            [](Worker& w) {
              NcclRank rank(w);
              let_all_start(w);
              emulated_cuda::break_nccl(emulated_cuda::NcclFault::never_joins);
              sum(rank, Tensor::zeros({100}, DType::f32, own_device(w)));
            },
            8);
      },
      {"saw nothing move for 8 s", "what a test asks for waits for NCCL to join the ranks"});
}

TEST_F(NcclFails, ASumThatARankNeverComesToEndsByTheTimeOutThoughTheHostWaitsForItsDevice) {
  expect_error<CommError>(
      [] { sum_without_rank_1(8, [] {}); },
      {"rank 0 of 2 saw nothing move for 8 s", "was asked of a device last waits for other ranks to come to it"});
}

TEST_F(NcclFails, AnErrorThatNcclFindsLaterEndsTheEngine) {
  const auto fails = [] { emulated_cuda::break_nccl(emulated_cuda::NcclFault::fails); };
  expect_error<Error>([&] { sum_without_rank_1(16, fails); },  // it comes long before the time-out
                      {"nccl: exchanging with other ranks: remote process exited or there was a network error"});
}

TEST_F(NcclFails, ACallThatHangsIsAborted) {
  const std::string error = error_of<Error>([] {
    on_ranks(2, [](Worker& w) {
      NcclRank rank(w);
      let_all_start(w);
      emulated_cuda::break_nccl(emulated_cuda::NcclFault::hangs);
      const Tensor x = Tensor::zeros({100}, DType::f32, own_device(w));
      const Ticket ticket = rank.submit([&](Communicator&) { rank.nccl->allreduce(x.slice()); });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      rank.nccl->stop();
      w.engine.wait(ticket);
    });
  });
  EXPECT_NE(error.find("nccl: "), std::string::npos) << error;
}

#endif

TEST(Nccl, AnInstalledOneHasWhatIsCalled) { expect_functions_of("libnccl", {2}, LACONIC_NAMES_OF(LACONIC_NCCL)); }

TEST(Nccl, RefusesWhatLiesOnNoGpu) {
  expect_error<UsageError>([] { on_ranks(2, [](Worker& w) { (void)Nccl::make(w.engine, kCpu); }); },
                           {"this model is on cpu", "take `allreduce` ring"});
}

}  // namespace
}  // namespace laconic::dist
