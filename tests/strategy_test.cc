#include "dist/sync/strategy.h"

#include <atomic>
#include <cmath>

#include "core/raw.h"
#include "dist/collective/barrier.h"
#include "dist/fingerprint.h"
#include "dist/sync/allreduce.h"
#include "dist/sync/none.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"
#include "tests/test_devices.h"
#include "tests/whole_forward.h"

namespace laconic::dist {
namespace {

/// Parameters of all kinds of sizes, registered first to last as a model would.
std::vector<std::shared_ptr<Parameter>> some_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<Shape> shapes = {{3, 5}, {7}, {64, 100}, {1}, {60, 100}, {17}, {10, 33}, {10}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto p = std::make_shared<Parameter>(shapes[i], shapes[i].rank() == 1 ? Role::bias : Role::linear);
    p->info.name = concat("p", i);
    raw::fill(p->value(), static_cast<float>(i) + 1.0f);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

/// What rank `rank` finds in step `step`: any function of place and value that tells ranks and steps apart.
float gradient_at(int rank, int step, std::size_t i, float value) {
  return 0.1f * value +
         std::sin(static_cast<float>(i % 1000) + 10.0f * static_cast<float>(rank)) / static_cast<float>(step);
}

void sgd(Parameter& p, Rows rows, const StepContext& context) {
  const auto lr = static_cast<float>(context.lr * context.gradient_scale);
  // No other rows are touched: they may be under way.
  OnHost value(p.value().rows(rows.first, rows.count)), grad(p.grad().rows(rows.first, rows.count));
  for (std::int64_t i = 0; i < p.info.elements / p.all_rows().count * rows.count; ++i) value[i] -= lr * grad[i];
}

double lr_of(int step) { return 0.1 / step; }

/// Forward asks for every parameter, first to last, large ones by chunks; backward finishes them last to first, in two
/// halves of their rows.
void train(Strategy& sync, const ParameterArena& arena, int rank, int from, int to, StepStats* stats = nullptr) {
  const auto& parameters = arena.parameters();
  for (int step = from; step <= to; ++step) {
    sync.begin_step({.step = step, .lr = lr_of(step)});
    whole_forward(sync, arena);
    for (const auto& p : parameters) {
      {
        OnHost value(p->value()), grad(p->grad());
        for (std::int64_t i = 0; i < p->info.elements; ++i)
          grad[i] = gradient_at(rank, step, static_cast<std::size_t>(p->info.offset + i), value[i]);
      }
      const Rows all = p->all_rows();
      if (all.count > 1) sync.gradient_ready(*p, {0, all.count / 2});
      sync.gradient_ready(*p, {all.count > 1 ? all.count / 2 : 0, all.count - (all.count > 1 ? all.count / 2 : 0)});
    }
    StepStats last;
    sync.end_step(stats == nullptr ? last : *stats);
  }
  sync.flush();
}

/// The same training in one thread and double.
std::vector<double> oracle(const ParameterArena& arena, int N, int steps, double divisor) {
  std::vector<float> start = arena.values().to_vector();
  std::vector<double> x(start.begin(), start.end());
  for (int step = 1; step <= steps; ++step)
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        double sum = 0;
        for (int r = 0; r < N; ++r) sum += gradient_at(r, step, i, static_cast<float>(x[i]));
        x[i] -= lr_of(step) * sum / divisor;
      }
  return x;
}

TEST(AllreduceSync, TrainsWithTheMeanGradientAndEndsWithTheSameBitsOnAllRanks) {
  for (int N : {1, 2, 3, 4})
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::butterfly})
      for (const std::size_t bucket_bytes :
           {std::size_t{0}, std::size_t{10'000}, std::size_t{1} << 20, std::size_t{1} << 30}) {
        std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
        std::vector<double> expected;
        on_ranks(N, [&](Worker& w) {
          const ParameterArena arena(some_parameters());
          if (w.rank == 0) expected = oracle(arena, N, 6, N);
          AllreduceSync sync(arena, w.engine,
                             make_plan(arena.parameters(), {.algorithm = algorithm, .bucket_bytes = bucket_bytes}),
                             sgd);
          train(sync, arena, w.rank, 1, 6);
          values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
        });
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(values[0][i], expected[i], 1e-4) << N << " ranks";
        for (const auto& v : values) ASSERT_TRUE(same_bits(v, values[0]));
      }
}

/// Every algorithm that runs without MPI.
std::vector<std::string> algorithms() {
  return {"ring", "butterfly", "doubling", "hierarchical:2", "ring-tree:2", "tree:2", "hybrid", "hybrid-printed"};
}

PlanOptions plan_options(const std::string& allreduce, const std::string& fusion, std::size_t chunk_bytes) {
  PlanOptions options;
  set_allreduce(options, allreduce);
  set_fusion(options, fusion);
  options.chunk_bytes = chunk_bytes;
  return options;
}

// {64, 100} and {60, 100} are 25,600 and 24,000 bytes: with chunks of 7,000 bytes, rows 0, 16, 32, 48.
TEST(AllreduceSync, AnEqualPlanGivesTheSameBitsWithEveryOverlapOnEveryRank) {
  const char* const fusions[] = {"none", "lazy:10KiB", "lazy:1MiB", "copy:10kB", "copy:1GiB"};
  // All of ranks times algorithms meet every fusion and every size of chunks.
  for (const auto& row : pairwise({4 * algorithms().size(), std::size(fusions), 2})) {
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

// -------------------------------------------------------------------------------------------------------------- codec

std::vector<std::vector<float>> train_with(const std::string& codec, int N, const PlanOptions& plan, Overlap overlap,
                                           bool feedback = false, std::uint64_t* bytes = nullptr) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    PlanOptions options = plan;
    set_codec(options, codec);
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options, N), sgd,
                       {.overlap = overlap, .seed = 7, .feedback = feedback});
    train(sync, arena, w.rank, 1, 3);
    values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
    if (bytes && w.rank == 0) *bytes = w.engine.counters().sent.bytes;
  });
  return values;
}

TEST(AllreduceSync, IdentityIsNoCodecAndEveryOtherLeavesEqualBitsOnAllRanksWithEveryOverlap) {
  const char* const codecs[] = {"inceptionn:2^-10", "qsgd:8:512", "fp16", "terngrad", "inceptionn-published:2^-6"};
  const char* const fusions[] = {"none", "lazy:10KiB", "copy:10kB"};
  for (const auto& row : pairwise({3, algorithms().size(), std::size(fusions), std::size(codecs), 2})) {
    const int N = static_cast<int>(row[0]) + 2;
    const std::string allreduce = algorithms()[row[1]], codec = codecs[row[3]];
    const PlanOptions plan = plan_options(allreduce, fusions[row[2]], row[4] == 0 ? 0 : 7000);
    SCOPED_TRACE(concat(N, " ranks, ", allreduce, ", ", fusions[row[2]], ", ", codec, ", chunks ", row[4]));
    const auto plain = train_with("none", N, plan, Overlap::forward);
    EXPECT_TRUE(same_bits(train_with("identity", N, plan, Overlap::forward)[0], plain[0]));
    for (const bool feedback : {false, true}) {
      const auto first = train_with(codec, N, plan, Overlap::none, feedback);
      EXPECT_FALSE(same_bits(first[0], plain[0])) << "nothing went through the codec";
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward})
        for (const auto& v : train_with(codec, N, plan, overlap, feedback))
          ASSERT_TRUE(same_bits(v, first[0])) << to_string(overlap);
    }
  }
}

TEST(AllreduceSync, CountsWhatTheCodecSends) {
  std::uint64_t plain = 0, coded = 0;
  const PlanOptions plan = plan_options("ring", "lazy:1MiB", 0);
  train_with("none", 4, plan, Overlap::forward, false, &plain);
  train_with("fp16", 4, plan, Overlap::forward, false, &coded);
  EXPECT_EQ(plain, 2 * coded);
  const ParameterArena arena(some_parameters());
  PlanOptions options = plan;
  set_codec(options, "fp16");
  EXPECT_DOUBLE_EQ(2 * *bytes_of_step(make_plan(arena.parameters(), options, 4), 4),
                   *bytes_of_step(make_plan(arena.parameters(), plan, 4), 4));
}

TEST(AllreduceSync, WhatWasLostIsSavedAndResumed) {
  const auto run = [](bool stop) {
    std::vector<float> values;
    on_ranks(3, [&](Worker& w) {
      PlanOptions options = plan_options("ring", "copy:10kB", 0);
      set_codec(options, "inceptionn:2^-6");
      const AllreduceSync::Options feedback{.feedback = true};
      const ParameterArena arena(some_parameters());
      const Plan plan = make_plan(arena.parameters(), options, 3);
      if (!stop) {
        AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
        train(sync, arena, w.rank, 1, 6);
      } else {
        StateDict state;
        {
          AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
          train(sync, arena, w.rank, 1, 3);
          sync.save(state);
        }
        AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
        sync.load(state);
        train(sync, arena, w.rank, 4, 6);
        EXPECT_THROW(sync.load({}), DataError);
        StateDict other;
        other.set("codec.lost", Tensor::zeros({3}));
        EXPECT_THROW(sync.load(other), DataError);
      }
      if (w.rank == 0) values = arena.values().to_vector();
    });
    return values;
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(Plan, KeepsItsCodecAsText) {
  const ParameterArena arena(some_parameters());
  PlanOptions options;
  set_codec(options, "qsgd:8:512");
  EXPECT_EQ(to_string(options), "ring, lazy:1MiB, chunks of 4MiB, codec qsgd:8:512");
  const Plan plan = make_plan(arena.parameters(), options, 2);
  const Plan again = Plan::from_json(plan.json(), arena.parameters(), "a test");
  EXPECT_EQ(again.codec, "qsgd:8:512");
  EXPECT_EQ(again.json(), plan.json());
  EXPECT_NE(plan.table().find("every hop through qsgd:8:512"), std::string::npos);
  EXPECT_EQ(make_plan(arena.parameters(), {}, 2).json().find("codec"), std::string::npos);
  std::string damaged = plan.json();
  damaged.replace(damaged.find("qsgd:8:512"), 10, "qsgd:99:1x");
  EXPECT_THROW(Plan::from_json(damaged, arena.parameters(), "a test"), DataError);
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
      StepStats stats;
      sync.end_step(stats);
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
      StepStats stats;
      train(sync, arena, w.rank, 1, 2, &stats);
      EXPECT_GT(w.engine.counters().peak_buffer_bytes, 0u);
      if (w.rank == 0) bytes = stats.buffer_bytes_peak - w.engine.counters().peak_buffer_bytes;
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
    StepStats stats;
    train(sync, b, 0, 1, 5, &stats);
    EXPECT_EQ(stats.bytes_sent, 0u);
    EXPECT_EQ(stats.bytes_dense, 0u);
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
    StepStats stats;
    train(sync, arena, w.rank, 1, 1, &stats);
    const std::uint64_t sent = w.engine.counters().sent.bytes - before;
    const double dense = 2.0 * 3 / 4 * 4 * static_cast<double>(arena.elements());
    EXPECT_NEAR(static_cast<double>(stats.bytes_dense), dense, 1);
    EXPECT_NEAR(static_cast<double>(sent), dense, 64.0 * 4 * 8 + 100);  // padding and uneven blocks
    EXPECT_LE(stats.bytes_sent, sent);                                  // what was still under way counts next time
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
  Plan by_mpi = make_plan(arena.parameters(), plan_options("mpi", "none", 0), 2);
  EXPECT_FALSE(bytes_of_step(by_mpi, 2).has_value());
  by_mpi.buckets.front().algorithm = Algorithm::ring;
  EXPECT_FALSE(bytes_of_step(by_mpi, 2).has_value()) << "some of it";
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
          1.0);
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

TEST(NoSync, UpdatesEachWorkerAlone) {
  on_ranks(2, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    std::vector<float> start = arena.values().to_vector();
    NoSync sync(arena, sgd);
    train(sync, arena, w.rank, 1, 1);
    const std::vector<float> values = arena.values().to_vector();
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i)
        ASSERT_FLOAT_EQ(values[i], start[i] - 0.1f * gradient_at(w.rank, 1, i, start[i]));
    EXPECT_EQ(w.engine.counters().sent.messages, 0u);
  });
}

TEST(NoSync, UpdatesEveryRowOnceWhenItIsAskedFor) {
  std::string said;
  const auto p = std::make_shared<Parameter>(Shape{10, 2}, Role::linear);
  const ParameterArena arena({p});
  NoSync sync(arena, [&](Parameter&, Rows rows, const StepContext& c) {
    EXPECT_EQ(c.gradient_scale, 1);
    said += concat(rows.first, ":", rows.count, " ");
  });
  sync.begin_step({});
  for (const Rows rows : {Rows{4, 6}, Rows{0, 3}, Rows{3, 1}}) sync.gradient_ready(*p, rows);
  sync.before_forward(*p, {2, 4});
  EXPECT_EQ(said, "4:2 2:2 ");
  sync.before_forward(*p, {2, 4});
  EXPECT_EQ(said, "4:2 2:2 ");
  sync.flush();
  EXPECT_EQ(said, "4:2 2:2 6:4 0:2 ");
}

TEST(Plan, PutsEveryParameterIntoOneBucketOfArenaNeighbours) {
  const ParameterArena arena(some_parameters());
  for (const std::size_t bucket_bytes :
       {std::size_t{0}, std::size_t{1000}, std::size_t{10'000}, std::size_t{1} << 30}) {
    const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = bucket_bytes});
    int next = 0;
    for (const Bucket& b : plan.buckets) {
      EXPECT_EQ(b.first, next);
      next += b.count;
      if (b.count > 1) {
        const std::int64_t last = arena.parameters()[static_cast<std::size_t>(next - 1)]->info.offset - b.offset;
        EXPECT_TRUE(b.elements * 4 <= static_cast<std::int64_t>(bucket_bytes) ||
                    last * 4 * 16 <= static_cast<std::int64_t>(bucket_bytes));
      }
      const ParameterInfo& last = arena.parameters()[static_cast<std::size_t>(next - 1)]->info;
      EXPECT_EQ(b.offset + b.elements, last.offset + last.elements);
    }
    EXPECT_EQ(next, static_cast<int>(arena.parameters().size()));
    if (bucket_bytes == 0) {
      EXPECT_EQ(plan.buckets.size(), arena.parameters().size());
    }
    if (bucket_bytes == std::size_t{1} << 30) {
      EXPECT_EQ(plan.buckets.size(), 1u);
    }
  }
}

/// conv 3 MB, fc1 32 MB in 8 chunks, fc1's bias, fc2 0.2 MB, fc2's bias; first to last.
ParameterArena some_model() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv.weight", {256, 3072}, Role::conv},
                                                                {"fc1.weight", {4096, 2048}, Role::linear},
                                                                {"fc1.bias", {4096}, Role::bias},
                                                                {"fc2.weight", {12, 4096}, Role::linear},
                                                                {"fc2.bias", {12}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
  }
  return ParameterArena(parameters);
}

TEST(Plan, ALargeLinearWeightTravelsInChunksOfRowsTheFirstRowsAndTheirBiasFirst) {
  const ParameterArena arena = some_model();
  const Plan plan = make_plan(arena.parameters(), {});
  ASSERT_EQ(plan.buckets.size(), 10u);
  EXPECT_EQ(plan.buckets[0].name, "fc2.bias..fc1.bias");
  EXPECT_EQ(plan.buckets[1].name, "fc1.weight[0:512]");
  EXPECT_EQ(plan.buckets[8].name, "fc1.weight[3584:4096]");
  EXPECT_EQ(plan.buckets[8].offset - plan.buckets[1].offset, std::int64_t{3584} * 2048);
  EXPECT_EQ(plan.buckets[1].pieces, 16);
  EXPECT_EQ(plan.buckets[9].pieces, 12);
  EXPECT_EQ(plan.bucket_of, (std::vector<int>{0, 0, 0, 1, 9}));
  EXPECT_EQ(plan.chunk_rows(3), 512);
  EXPECT_EQ(plan.chunk_rows(4), 0);
  std::vector<std::string> by_priority(10);
  for (const Bucket& b : plan.buckets) by_priority[static_cast<std::size_t>(9 - b.priority)] = b.name;
  EXPECT_EQ(by_priority[0], "conv.weight");
  EXPECT_EQ(by_priority[1], "fc2.bias..fc1.bias");
  EXPECT_EQ(by_priority[2], "fc1.weight[0:512]");
  EXPECT_EQ(by_priority[9], "fc1.weight[3584:4096]");
  EXPECT_EQ(make_plan(arena.parameters(), {.chunk_bytes = 0}).buckets.size(), 3u);
}

TEST(Plan, HybridSendsConvolutionsAndSmallOnesByButterflyAndPrintedTheOtherWayRound) {
  const ParameterArena arena = some_model();
  for (const bool printed : {false, true}) {
    PlanOptions options = plan_options(printed ? "hybrid-printed" : "hybrid", "none", 4 << 20);
    const Algorithm small = printed ? Algorithm::ring : Algorithm::butterfly;
    const Algorithm large = printed ? Algorithm::butterfly : Algorithm::ring;
    for (const Bucket& b : make_plan(arena.parameters(), options).buckets)
      EXPECT_EQ(b.algorithm, b.name.find("fc1.weight") == 0 || b.name == "fc2.weight" ? large : small) << b.name;
  }
}

TEST(Plan, IsTheSameAfterWritingAndReading) {
  const ParameterArena arena = some_model();
  for (const char* allreduce : {"ring", "hierarchical:3", "ring-tree:3", "tree:2", "hybrid"})
    for (const char* fusion : {"none", "copy:1MiB", "lazy:64KiB"}) {
      const Plan plan = make_plan(arena.parameters(), plan_options(allreduce, fusion, 4 << 20));
      const Plan read = Plan::from_json(plan.json(), arena.parameters(), "here");
      EXPECT_EQ(read.json(), plan.json());
      EXPECT_EQ(read.table(), plan.table());
      EXPECT_EQ(read.bucket_of, plan.bucket_of);
      for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
        EXPECT_EQ(read.buckets[b].priority, plan.buckets[b].priority);
        EXPECT_EQ(read.buckets[b].offset, plan.buckets[b].offset);
        EXPECT_EQ(read.buckets[b].elements, plan.buckets[b].elements);
        EXPECT_EQ(read.buckets[b].copied, plan.buckets[b].copied);
      }
    }
}

TEST(Plan, ABadTextIsRefusedWithASentence) {
  const ParameterArena arena = some_model();
  const std::string good = make_plan(arena.parameters(), {}).json();
  const auto refusal = [&](const std::string& text) {
    try {
      Plan::from_json(text, arena.parameters(), "plan.json");
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(refusal(good), "taken");
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_NE(refusal(good.substr(0, n)), "taken") << n;
  for (const char* text :
       {"", "[]", "{}", "7", "{\"plan\":{}}", "{\"format\":1,\"buckets\":{}}", "{\"format\":1,\"buckets\":[]}",
        "{\"format\":1,\"buckets\":[7]}", "{\"format\":1,\"buckets\":[{\"parameters\":[]}]}"})
    EXPECT_EQ(refusal(text).find("plan: plan.json: "), 0u) << text << ": " << refusal(text);
  EXPECT_NE(with("\"format\":1", "\"format\":2").find("format is 2"), std::string::npos);
  EXPECT_NE(with("fc2.weight", "fc3.weight").find("'fc3.weight', this model has 'fc2.weight'"), std::string::npos);
  EXPECT_NE(with("[512,512]", "[512,511]").find("row 1023"), std::string::npos);
  EXPECT_NE(with("[0,512]", "[0,-512]").find("[0, -512]"), std::string::npos);
  EXPECT_NE(with("[3584,512]", "[3584,9223372036854775807]").find("go on with"), std::string::npos);
  EXPECT_NE(with("\"ring\"", "\"rink\"").find("no algorithm \"rink\""), std::string::npos);
  EXPECT_NE(with("\"pieces\":16", "\"pieces\":0").find("0 pieces"), std::string::npos);
}

TEST(Plan, OptionsAreReadAndWrongOnesRefused) {
  PlanOptions o = plan_options("hierarchical:4", "copy:25MB", 0);
  EXPECT_EQ(o.algorithm, Algorithm::hierarchical);
  EXPECT_EQ(o.group, 4);
  EXPECT_EQ(o.fusion, PlanOptions::Fusion::copy);
  EXPECT_EQ(o.bucket_bytes, 25'000'000u);
  EXPECT_EQ(to_string(PlanOptions{}), "ring, lazy:1MiB, chunks of 4MiB");
  set_fusion(o, "lazy:64KiB");
  EXPECT_EQ(o.bucket_bytes, 65536u);
  set_chunk(o, "none");
  EXPECT_EQ(o.chunk_bytes, 0u);
  for (const char* text : {"", "hierarchical", "hierarchical:", "hierarchical:0", "hierarchical:2x", "tree", "tree:1",
                           "ring-tree:1", "ring:2", "hybird"})
    EXPECT_THROW(set_allreduce(o, text), UsageError) << text;
  for (const char* text : {"", "lazy", "copy:", "copy:0", "lazy:-1", "lazy:1MX", "lazy:nan", "copy:1e30", "some:1MiB"})
    EXPECT_THROW(set_fusion(o, text), UsageError) << text;
  for (const char* text : {"", "0", "x", "-4MiB"}) EXPECT_THROW(set_chunk(o, text), UsageError) << text;
  EXPECT_EQ(overlap_named("backward"), Overlap::backward);
  EXPECT_THROW(overlap_named("forwards"), UsageError);
}

TEST(Plan, NamesTheNearestAlgorithm) {
  PlanOptions options;
  try {
    set_allreduce(options, "buterfly");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("butterfly"), std::string::npos);
  }
  set_allreduce(options, "ring");
  EXPECT_EQ(options.algorithm, Algorithm::ring);
}

TEST(Fingerprint, PassesWhenAllRanksRunTheSame) {
  for (int N : {1, 2, 5}) on_ranks(N, [](Worker& w) { check_fingerprint(w.engine, "model=lenet\nbatch=32\n"); });
}

TEST(Fingerprint, NamesRanksAndFirstDifferenceOnAllRanks) {
  std::vector<std::string> told(4);
  on_ranks(4, [&](Worker& w) {
    try {
      check_fingerprint(w.engine, w.rank == 2 ? "model=lenet\nbatch=16\nseed=2\n" : "model=lenet\nbatch=32\nseed=1\n");
    } catch (const CommError& e) {
      told[static_cast<std::size_t>(w.rank)] = e.what();
    }
  });
  for (const std::string& sentence : told)
    EXPECT_EQ(sentence,
              "fingerprint: rank 2 has 'batch=16' where rank 0 has 'batch=32'. Start all ranks with the same program, "
              "options and data.");
}

TEST(Fingerprint, SeesALineThatIsMissing) {
  EXPECT_THROW(on_ranks(2, [](Worker& w) { check_fingerprint(w.engine, w.rank == 0 ? "a=1\n" : "a=1\nb=2\n"); }),
               CommError);
}

}  // namespace
}  // namespace laconic::dist
