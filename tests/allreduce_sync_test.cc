#include "dist/method/allreduce_sync.h"

#include <atomic>

#include "dist/collective/meeting.h"
#include "dist/method/none/no_sync.h"
#include "tests/dense_training.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"
#include "tests/reference/hybrid_allreduce.h"
#include "tests/test_devices.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

using namespace dense_training;

TEST(AllreduceSync, TrainsWithTheMeanGradientAndEndsWithTheSameBitsOnAllRanks) {
  for (int N : {1, 2, 3, 4})
    for (const char* allreduce : {"ring", "butterfly"})
      for (const std::size_t bucket_bytes :
           {std::size_t{0}, std::size_t{10'000}, std::size_t{1} << 20, std::size_t{1} << 30}) {
        std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
        std::vector<double> expected;
        on_ranks(N, [&](Worker& w) {
          const ParameterArena arena(some_parameters());
          if (w.rank == 0) expected = oracle(arena, N, 6, N);
          AllreduceSync sync(arena, w.engine,
                             make_plan(arena.parameters(), {.allreduce = allreduce, .bucket_bytes = bucket_bytes}),
                             sgd);
          train(sync, arena, w.rank, 1, 6);
          values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
        });
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(values[0][i], expected[i], 1e-4) << N << " ranks";
        for (const auto& v : values) ASSERT_TRUE(same_bits(v, values[0]));
      }
}

// {64, 100} and {60, 100} are 25,600 and 24,000 bytes: with chunks of 7,000 bytes, rows 0, 16, 32, 48.
TEST(AllreduceSync, AnEqualPlanGivesTheSameBitsWithEveryOverlapOnEveryRank) {
  const char* const fusions[] = {"none", "lazy:10KiB", "lazy:1MiB", "copy:10kB", "copy:1GiB"};
  // All of ranks times algorithms meet every fusion and every size of chunks.
  for (const auto& row : combinations({4 * algorithms().size(), std::size(fusions), 2})) {
    const int N = static_cast<int>(row[0] % 4) + 1;
    const std::string allreduce = algorithms()[row[0] / 4], fusion = fusions[row[1]];
    const std::size_t chunk = row[2] == 0 ? 0 : 7000;
    SCOPED_TRACE(concat(N, " ranks, ", allreduce, ", ", fusion, ", chunks of ", chunk));
    std::vector<float> first;
    std::vector<double> expected;
    for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
      std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        const ParameterArena arena(some_parameters());
        if (w.rank == 0 && expected.empty()) expected = oracle(arena, N, 3, N);
        AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), plan_options(allreduce, fusion, chunk)), sgd,
                           {.overlap = overlap});
        EXPECT_EQ(arena.parameters()[5]->chunk_rows(), chunk == 0 ? 0 : 16);
        train(sync, arena, w.rank, 1, 3);
        values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
      });
      if (first.empty()) {
        first = values[0];
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(first[i], expected[i], 1e-4);
      }
      for (const auto& v : values) ASSERT_TRUE(same_bits(v, first)) << to_string(overlap);
    }
  }
}

TEST(AllreduceSync, AConvolutionInChunksIsHandedOverAtOnceAndTrainsAsAWholeOne) {
  std::vector<std::vector<float>> values(2);  // of a whole one, of one in chunks
  for (const bool cut : {false, true})
    on_ranks(2, [&](Worker& w) {
      const auto p = std::make_shared<Parameter>(Shape{64, 4, 5, 5}, Role::conv);
      p->info.name = "conv.weight";
      raw::fill(p->value(), 1.0f);
      const ParameterArena arena({p});
      PlanOptions options = plan_options("ring", "none", 7000);
      options.chunk_convolutions = cut;
      const Plan plan = make_plan(arena.parameters(), options);
      EXPECT_EQ(plan.buckets.size(), cut ? 4u : 1u);
      AllreduceSync sync(arena, w.engine, plan, sgd);
      EXPECT_EQ(p->chunk_rows(), 0);
      train(sync, arena, w.rank, 1, 3);
      if (w.rank == 0) values[cut ? 1 : 0] = arena.values().to_vector();
    });
  for (std::size_t i = 0; i < values[0].size(); ++i) ASSERT_NEAR(values[1][i], values[0][i], 1e-5);
}

TEST(AllreduceSync, WithoutOverlapWithForwardAllIsUpdatedAtTheEndOfTheStep) {
  for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward})
    on_ranks(2, [&](Worker& w) {
      const ParameterArena arena(some_parameters());
      int updates = 0, before_end = 0;
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}),
                         [&](Parameter&, Rows, const StepContext&) { ++updates; }, {.overlap = overlap});
      sync.begin_step({});
      const std::uint64_t silent = w.engine.counters().sent.messages;
      for (const auto& p : arena.parameters()) sync.gradient_ready(*p, p->all_rows());
      if (overlap == Overlap::none) {
        EXPECT_EQ(w.engine.counters().sent.messages, silent);
      }
      before_end = updates;
      sync.end_step();
      EXPECT_EQ(before_end, 0);
      EXPECT_EQ(updates, overlap == Overlap::forward ? 0 : 8);
      sync.flush();
      EXPECT_EQ(updates, 8);
    });
}

TEST(AllreduceSync, CountsTheBuffersThatItCopiesInto) {
  const auto peak = [](const char* fusion, Overlap overlap) {
    std::uint64_t bytes = 0;
    on_ranks(2, [&](Worker& w) {
      const ParameterArena arena(some_parameters());
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), plan_options("ring", fusion, 0)), sgd,
                         {.overlap = overlap});
      train(sync, arena, w.rank, 1, 2);
      EXPECT_GT(w.engine.counters().peak_buffer_bytes, 0u);
      if (w.rank == 0) bytes = sync.costs().buffer_bytes;
    });
    return bytes;
  };
  const std::uint64_t all = 4 * (15 + 7 + 6400 + 1 + 6000 + 17 + 330 + 10);
  EXPECT_EQ(peak("none", Overlap::none), 0u);
  EXPECT_EQ(peak("lazy:1MiB", Overlap::none), 0u);
  EXPECT_EQ(peak("copy:1MiB", Overlap::none), all);
}

TEST(AllreduceSync, LeavesTheSumWhenAsked) {
  std::vector<float> values;
  std::vector<double> expected;
  on_ranks(2, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    if (w.rank == 0) expected = oracle(arena, 2, 3, 1);
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}), sgd, {.mean = false});
    train(sync, arena, w.rank, 1, 3);
    if (w.rank == 0) values = arena.values().to_vector();
  });
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-4);
}

TEST(AllreduceSync, OfOneRankGivesTheBitsOfComputingAloneAndSendsNothing) {
  std::vector<float> alone, synced;
  on_ranks(1, [&](Worker& w) {
    const ParameterArena a(some_parameters()), b(some_parameters());
    NoSync none(a, sgd);
    train(none, a, 0, 1, 5);
    AllreduceSync sync(b, w.engine, make_plan(b.parameters(), {}), sgd);
    train(sync, b, 0, 1, 5);
    EXPECT_EQ(w.engine.counters().sent.messages, 0u);
    alone = a.values().to_vector();
    synced = b.values().to_vector();
  });
  EXPECT_TRUE(same_bits(alone, synced));
}

TEST(AllreduceSync, GivesTheSameBitsWhetherOrNotItIsFlushedInBetween) {
  std::vector<float> once, often;
  for (const bool flushed : {false, true})
    on_ranks(3, [&](Worker& w) {
      const ParameterArena arena(some_parameters());
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}), sgd);
      if (flushed)
        for (int step = 1; step <= 5; ++step) train(sync, arena, w.rank, step, step);
      else
        train(sync, arena, w.rank, 1, 5);
      if (w.rank == 2) (flushed ? often : once) = arena.values().to_vector();
    });
  EXPECT_TRUE(same_bits(once, often));
}

TEST(AllreduceSync, StatesTheBytesThatItHandedToTheNetwork) {
  on_ranks(4, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}), sgd);
    const std::uint64_t before = w.engine.counters().sent.bytes;
    train(sync, arena, w.rank, 1, 1);
    const std::uint64_t sent = w.engine.counters().sent.bytes - before;
    const double dense = 2.0 * 3 / 4 * 4 * static_cast<double>(arena.elements());
    EXPECT_NEAR(static_cast<double>(sent), dense, 64.0 * 4 * 8 + 100);  // padding and uneven blocks
  });
}

TEST(AllreduceSync, TellsBeforehandWhatAStepWillSend) {
  const ParameterArena arena(some_parameters());
  for (const std::string& allreduce : algorithms())
    for (int N : {1, 3, 4}) {
      const Plan plan = make_plan(arena.parameters(), plan_options(allreduce, "lazy:10KiB", 0), N);
      std::atomic<std::uint64_t> sent{0};
      on_ranks(N, [&](Worker& w) {
        const ParameterArena own(some_parameters());
        AllreduceSync sync(own, w.engine, plan, sgd);
        train(sync, own, w.rank, 1, 1);
        sent += w.engine.counters().sent.bytes;
      });
      const double blocks_of_a_leader = 8.0 * N * static_cast<double>(plan.buckets.size());
      EXPECT_NEAR(static_cast<double>(sent), N * bytes_of_step(plan, N).value(), blocks_of_a_leader) << allreduce;
      EXPECT_GE(N * bytes_of_step(plan, N).value(), (N - 1) * 4.0 * 12'000) << allreduce;
    }
  Plan by_nccl = make_plan(arena.parameters(), plan_options("nccl", "none", 0), 2);
  EXPECT_FALSE(bytes_of_step(by_nccl, 2).has_value());
  by_nccl.buckets.front().allreduce = "ring";
  EXPECT_FALSE(bytes_of_step(by_nccl, 2).has_value()) << "some of it";
}

TEST(AllreduceSync, AnExceptionOfTheWorkerLeavesNoOperationInFreedMemory) {
  EXPECT_THROW(on_ranks(3,
                        [&](Worker& w) {
                          const ParameterArena arena(some_parameters());
                          AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}), sgd);
                          sync.begin_step({});
                          for (const auto& p : arena.parameters()) {
                            if (w.rank == 1 && p->info.index == 4) throw DataError("a bad image");
                            sync.gradient_ready(*p, p->all_rows());
                          }
                          sync.flush();
                        }),
               DataError);
}

TEST(AllreduceSync, ATimeOutSaysAtWhatParameterARankComputes) {
  for (const bool forward : {false, true}) try {
      on_ranks(
          2,
          [&](Worker& w) {
            const ParameterArena arena(some_parameters());
            AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {.bucket_bytes = 0}), sgd);
            sync.begin_step({});
            for (const auto& p : arena.parameters()) {
              if (w.rank == 1 && p->info.name == "p4") break;
              sync.gradient_ready(*p, p->all_rows());
            }
            if (w.rank == 0) return sync.flush();
            if (forward) sync.before_forward(*arena.parameters()[1], arena.parameters()[1]->all_rows());
            const auto nothing = [](Communicator&) -> Task<> { co_return; };
            while (true) {  // until rank 0 has ended all
              (void)w.engine.submit({.name = "nothing", .slot = 0, .priority = 0, .body = nothing});
              std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
          },
          3.0);  // a rank that gets no processor for half of it would count as silent
      FAIL();
    } catch (const CommError& e) {
      const std::string expected = concat("Rank 1 computes, last seen in ",
                                          forward ? "forward at p6" : "backward at p5", "; its last operation, ");
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
}

TEST(AllreduceSync, GoneAfterAFlushLeavesOperationsOfOthersAlone) {
  std::atomic<bool> gone{false};
  on_ranks(2, [&](Worker& w) {
    const auto meet = [&] { return w.engine.submit({.name = "meeting", .slot = 0, .priority = 0, .body = barrier}); };
    Ticket meeting;
    {
      const ParameterArena arena(some_parameters());
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {}), sgd);
      train(sync, arena, w.rank, 1, 2);
      if (w.rank == 0) meeting = meet();
    }
    if (w.rank == 0)
      gone = true;
    else
      while (!gone) std::this_thread::yield();
    if (w.rank == 1) meeting = meet();
    w.engine.wait(meeting);
  });
}

TEST(AllreduceSync, SaysSoWhenAGradientComesTwiceBeforeItsUpdate) {
  EXPECT_THROW(on_ranks(2,
                        [&](Worker& w) {
                          const ParameterArena arena(some_parameters());
                          AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {.bucket_bytes = 0}), sgd);
                          Parameter& p = *arena.parameters()[0];
                          sync.gradient_ready(p, p.all_rows());
                          sync.gradient_ready(p, p.all_rows());
                        }),
               Error);
}

TEST(AllreduceSync, LeavesDeviceMemoryToTheKernelsOfCore) {
  // The trap device faults when anything above core/ follows a pointer.
  for (const auto& [allreduce, fusion, overlap] : {std::tuple{"ring", "lazy:1MiB", Overlap::forward},
                                                   {"butterfly", "lazy:10KiB", Overlap::none},
                                                   {"ring", "copy:1MiB", Overlap::backward},
                                                   {"butterfly", "copy:10KiB", Overlap::forward}})
    on_ranks(3, [&, allreduce = allreduce, fusion = fusion, overlap = overlap](Worker& w) {
      const ParameterArena arena(some_parameters(), kTrap);
      const std::vector<float> start = arena.values().to_vector();
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), plan_options(allreduce, fusion, 0)),
                         [](Parameter& p, Rows, const StepContext& c) {
                           raw::axpy(p.value(), -static_cast<float>(c.gradient_scale), p.grad());
                         },
                         {.overlap = overlap});
      sync.begin_step({});
      for (const auto& p : arena.parameters()) {
        raw::fill(p->grad(), static_cast<float>(w.rank));
        sync.gradient_ready(*p, p->all_rows());
      }
      sync.flush();
      const std::vector<float> values = arena.values().to_vector();
      for (const auto& p : arena.parameters()) {
        const auto i = static_cast<std::size_t>(p->info.offset);
        EXPECT_NEAR(values[i], start[i] - 1.0f, 1e-5);
      }
    });
}

class AllreduceSyncOnDevice : public CudaTest {};

TEST_F(AllreduceSyncOnDevice, GivesTheBitsOfTheCpuWithEveryAlgorithmAndOverlap) {
  for (const std::string& allreduce : algorithms())
    for (const auto& [fusion, overlap] : {std::pair{"lazy:10KiB", Overlap::forward}, {"copy:10kB", Overlap::none}}) {
      SCOPED_TRACE(concat(allreduce, ", ", fusion, ", ", to_string(overlap)));
      std::vector<std::vector<float>> values(3);
      std::vector<float> expected;
      for (const Device device : test_devices()) {
        on_ranks(3, [&, fusion = fusion, overlap = overlap](Worker& w) {
          const ParameterArena arena(some_parameters(), device);
          AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), plan_options(allreduce, fusion, 7000)), sgd,
                             {.overlap = overlap});
          train(sync, arena, w.rank, 1, 3);
          values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
        });
        if (device == kCpu) expected = values[0];
        for (const auto& v : values) ASSERT_TRUE(same_bits(v, expected)) << device;
      }
    }
}

// Between 64 KiB and 4 MiB a layer's kind says which allreduce it takes, as in the paper.
TEST(AllreduceSync, LayersTravelAndAreUpdatedAsInHybridArsReference) {
  constexpr int N = 4;
  const auto parameters = [] {
    std::vector<std::shared_ptr<Parameter>> all{std::make_shared<Parameter>(Shape{64, 64, 3, 3}, Role::conv),
                                                std::make_shared<Parameter>(Shape{48, 64, 3, 3}, Role::conv),
                                                std::make_shared<Parameter>(Shape{190, 201}, Role::linear)};
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->info.name = concat("p", i);
    return all;
  };
  std::vector<reference::HybridLayer> layers;
  for (const auto& p : parameters()) {
    layers.push_back({.convolution = p->info.role == Role::conv, .gradient = {}});
    const auto n = static_cast<std::size_t>(p->value().elements());
    for (int r = 0; r < N; ++r)
      layers.back().gradient.push_back(values_of(r + 10 * static_cast<int>(layers.size()), n));
  }
  const std::vector<reference::HybridLayer> gradients = layers;
  std::vector<std::pair<std::size_t, std::vector<float>>> updates;
  reference::hybrid_step(layers, [&](std::size_t n, const std::vector<float>& sum) { updates.emplace_back(n, sum); });
  on_ranks(N, [&](Worker& w) {
    const std::vector<std::shared_ptr<Parameter>> model = parameters();
    const ParameterArena arena(model);
    std::vector<std::pair<std::size_t, std::vector<float>>> made;
    const Update update = [&](Parameter& p, Rows, const StepContext&) {
      made.emplace_back(p.info.name[1] - '0', p.grad().to_vector());
    };
    const Plan plan = make_plan(arena.parameters(), plan_options("hybrid", "none", 0), N);
    AllreduceSync sync(arena, w.engine, plan, update, {.overlap = Overlap::forward});
    sync.begin_step({});
    for (const auto& p : arena.parameters()) {
      const auto n = static_cast<std::size_t>(p->info.name[1] - '0');
      const std::vector<float>& mine = gradients[n].gradient[static_cast<std::size_t>(w.rank)];
      p->grad().copy_from(Tensor::of(p->info.shape, std::span<const float>(mine)));
      sync.gradient_ready(*p, p->all_rows());
    }
    sync.end_step();
    EXPECT_TRUE(made.empty()) << "an update waits for its layer's forward";
    for (const auto& p : model) sync.before_forward(*p, p->all_rows());
    ASSERT_EQ(made.size(), updates.size());
    for (std::size_t n = 0; n < made.size(); ++n) {
      EXPECT_EQ(made[n].first, updates[n].first);
      EXPECT_TRUE(same_bits(made[n].second, updates[n].second)) << n;
    }
  });
}

}  // namespace
}  // namespace laconic::dist
