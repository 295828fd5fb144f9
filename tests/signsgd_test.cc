// Votes of signs, against counting them one by one.
#include "dist/method/signsgd/sign_sgd.h"

#include <cmath>

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
    SignSgd sync({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd},
                 scaled);
    dense_training::train(sync, arena, w.rank, 1, steps);
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
  for (const Device device : {kCpu, kTrap}) {
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

}  // namespace
}  // namespace laconic::dist
