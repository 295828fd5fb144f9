// Votes of signs, against counting them one by one.
#include <cmath>
#include <span>

#include "dist/method/method.h"
#include "dist/plan/choice.h"
#include "tests/cuda_devices.h"
#include "tests/dense_training.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

/// Values of all ranks after some steps of dense_training.
std::vector<std::vector<float>> voted(int N, int steps, bool scaled, std::size_t chunk, Device device = kCpu) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    const ParameterArena arena(dense_training::some_parameters(), device);
    const Plan plan = make_plan(arena.parameters(), {.chunk_bytes = chunk}, N);
    const TrainingFacts facts{.workers = N};
    const auto sync =
        method("signsgd", {{"sign-scale", scaled ? "mean" : "none"}})
            ->worker({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
    dense_training::train(*sync, arena, w.rank, 1, steps);
    values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
  });
  return values;
}

TEST(SignSgd, AppliesWhatMostSay) {
  constexpr int kSteps = 4;
  for (const int N : {1, 3, 5})
    for (const bool scaled : {true, false}) {
      SCOPED_TRACE(concat(N, " ranks, scaled ", scaled));
      const auto values = voted(N, kSteps, scaled, 0);
      for (const auto& v : values) ASSERT_TRUE(same_bits(v, values[0]));
      const ParameterArena arena(dense_training::some_parameters());
      std::vector<float> x = arena.values().to_vector();
      for (const auto& p : arena.parameters())
        for (int step = 1; step <= kSteps; ++step) {
          const auto begin = static_cast<std::size_t>(p->info.offset),
                     end = begin + static_cast<std::size_t>(p->info.elements);
          double scale = 0;
          std::vector<int> below(x.size());
          for (int r = 0; r < N; ++r)
            for (std::size_t i = begin; i < end; ++i) {
              const float g = dense_training::gradient_at(r, step, i, x[i]);
              below[i] += g < 0;
              scale += std::abs(static_cast<double>(g)) / static_cast<double>(p->info.elements) / N;
            }
          if (!scaled) scale = 1;
          for (std::size_t i = begin; i < end; ++i)
            x[i] -= static_cast<float>(dense_training::lr_of(step) * (2 * below[i] > N ? -scale : scale));
        }
      for (const auto& p : arena.parameters())
        for (auto i = static_cast<std::size_t>(p->info.offset);
             i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i)
          ASSERT_NEAR(values[0][i], x[i], 1e-5) << p->info.name;
    }
}

TEST(SignSgd, WhereVotesAreEvenOneOfTheTwoSignsIsTakenAlikeEverywhere) {
  for (const Device device : with_cuda({kCpu, kTrap})) {
    const auto values = voted(2, 1, false, 7000, device);
    ASSERT_TRUE(same_bits(values[0], values[1]));
    const ParameterArena arena(dense_training::some_parameters());
    const std::vector<float> x = arena.values().to_vector();
    int even[2] = {0, 0};
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        const bool below[] = {dense_training::gradient_at(0, 1, i, x[i]) < 0,
                              dense_training::gradient_at(1, 1, i, x[i]) < 0};
        const float step = values[0][i] - x[i];
        ASSERT_NEAR(std::abs(step), dense_training::lr_of(1), 1e-6);
        if (below[0] == below[1]) {
          ASSERT_EQ(step > 0, below[0]);
        } else {
          ++even[step > 0];
        }
      }
    EXPECT_GT(even[0], 100);
    EXPECT_GT(even[1], 100);
  }
}

// One of four has a gradient, another one in every third element alone: in two steps all of it goes their way, and what
// nobody has a gradient for stays.
TEST(SignSgd, WorkersWithoutAGradientDoNotOutvoteTheOthers) {
  const std::vector<float> start = ParameterArena(dense_training::some_parameters()).values().to_vector();
  for (const int busy : {0, 1, 3}) {
    std::vector<float> values;
    on_ranks(4, [&](Worker& w) {
      const ParameterArena arena(dense_training::some_parameters());
      const Plan plan = make_plan(arena.parameters(), {.chunk_bytes = 0}, 4);
      const TrainingFacts facts{.workers = 4};
      const auto half = method("signsgd", {{"sign-scale", "none"}})
                            ->worker({.facts = facts,
                                      .arena = arena,
                                      .engine = w.engine,
                                      .plan = plan,
                                      .update = dense_training::sgd});
      Strategy& sync = *half;
      for (int step = 1; step <= 2; ++step) {
        sync.begin_step({.step = step, .lr = 0.5});
        whole_forward(sync, arena);
        for (const auto& p : arena.parameters()) {
          std::vector<float> gradient(static_cast<std::size_t>(p->info.elements));
          for (std::size_t i = 0; w.rank == busy && i < gradient.size(); ++i)
            gradient[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? -1.0f : 0.0f;
          p->grad().copy_from(Tensor::of(p->info.shape, std::span<const float>(gradient)));
          sync.gradient_ready(*p, p->all_rows());
        }
        sync.end_step();
      }
      sync.flush();
      if (w.rank == busy) values = arena.values().to_vector();
    });
    const ParameterArena arena(dense_training::some_parameters());
    double along = 0, elements = 0;
    for (const auto& p : arena.parameters())
      for (std::int64_t i = 0; i < p->info.elements; ++i) {
        SCOPED_TRACE(concat(p->info.name, ", ", i));
        const auto k = static_cast<std::size_t>(p->info.offset + i);
        const float moved = values[k] - start[k];
        if (i % 3 == 2) {
          ASSERT_EQ(moved, 0) << "a step forth, and one back";
        } else {
          ASSERT_GE(i % 3 == 0 ? -moved : moved, 0);
          along += std::abs(moved), ++elements;
        }
      }
    EXPECT_GT(along, 0.4 * elements) << "of 1, in two steps";
  }
}

}  // namespace
}  // namespace laconic::dist
