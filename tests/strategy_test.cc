#include "dist/sync/strategy.h"

#include <atomic>
#include <cmath>

#include "core/raw.h"
#include "dist/collective/barrier.h"
#include "dist/fingerprint.h"
#include "dist/sync/allreduce.h"
#include "dist/sync/none.h"
#include "tests/on_ranks.h"

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
  EXPECT_EQ(rows.count, p.all_rows().count);
  const auto lr = static_cast<float>(context.lr);
  float* value = p.value().data<float>();
  const float* grad = p.grad().data<float>();
  for (std::int64_t i = 0; i < p.info.elements; ++i) value[i] -= lr * grad[i];
}

double lr_of(int step) { return 0.1 / step; }

/// Forward asks for every parameter, first to last; backward finishes them last to first, in two halves of their rows.
void train(Strategy& sync, const ParameterArena& arena, int rank, int from, int to, StepStats* stats = nullptr) {
  const auto& parameters = arena.parameters();
  for (int step = from; step <= to; ++step) {
    sync.begin_step({.step = step, .lr = lr_of(step)});
    for (std::size_t i = parameters.size(); i-- > 0;) sync.before_forward(*parameters[i], parameters[i]->all_rows());
    for (const auto& p : parameters) {
      const float* value = p->value().data<float>();
      float* grad = p->grad().data<float>();
      for (std::int64_t i = 0; i < p->info.elements; ++i)
        grad[i] = gradient_at(rank, step, static_cast<std::size_t>(p->info.offset + i), value[i]);
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
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::butterfly})
    on_ranks(3, [&](Worker& w) {
      const ParameterArena arena(some_parameters(), kTrap);
      const std::vector<float> start = arena.values().to_vector();
      AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), {.algorithm = algorithm}),
                         [](Parameter& p, Rows, const StepContext&) { raw::axpy(p.value(), -1.0f, p.grad()); });
      for (const auto& p : arena.parameters()) {
        raw::fill(p->grad(), static_cast<float>(w.rank));
        sync.gradient_ready(*p, p->all_rows());
      }
      sync.flush();
      const std::vector<float> values = arena.values().to_vector();
      for (const auto& p : arena.parameters()) {
        const auto i = static_cast<std::size_t>(p->info.offset);
        EXPECT_EQ(values[i], start[i] - 1.0f);
      }
    });
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
        EXPECT_LE(b.elements * 4, static_cast<std::int64_t>(bucket_bytes));
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

TEST(Plan, NamesTheNearestAlgorithm) {
  try {
    algorithm_named("buterfly");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("butterfly"), std::string::npos);
  }
  EXPECT_EQ(algorithm_named("ring"), Algorithm::ring);
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
