#include <gtest/gtest.h>

#include <thread>

#include "dist/trainer/report.h"
#include "tests/training.h"

namespace laconic {
namespace {

/// Four workers that compute 40 ms a step, wait for 10, and send 1 MB at 800 Mbit/s.
RanksReport four() {
  return {.step = 100,
          .steps = 100,
          .compute_ms = {40, 41, 40, 42},
          .data_ms = {0, 0, 1, 0},
          .exposed_ms = {10, 10, 10, 10},
          .sending_ms = {10, 10, 10, 10},
          .bytes_sent = {1e6, 1e6, 1e6, 1e6}};
}

TEST(Straggler, AmongEqualsThereIsNone) {
  EXPECT_EQ(straggler_in(four()), "");
  EXPECT_EQ(straggler_in({}), "");
  RanksReport short_one = four();
  short_one.steps = 9, short_one.compute_ms[3] = 412;
  EXPECT_EQ(straggler_in(short_one), "") << "too few steps";
}

TEST(Straggler, IsWhoComputesLong) {
  RanksReport r = four();
  r.compute_ms[3] = 412, r.exposed_ms = {380, 379, 380, 5};
  EXPECT_EQ(straggler_in(r), "Worker 3 computes 412 ms a step where the others take 40.0: it holds all up.");
  r.compute_ms[0] = 400;
  EXPECT_EQ(straggler_in(r),
            "Workers 0 and 3 compute up to 412 ms a step where the others take 40.0: they hold all up.");
  RanksReport two{.steps = 20, .compute_ms = {8, 16}, .data_ms = {0, 0}, .exposed_ms = {9, 1}};
  two.sending_ms = two.bytes_sent = {0, 0};
  EXPECT_EQ(straggler_in(two), "Worker 1 computes 16.0 ms a step where the others take 8.00: it holds all up.");
}

TEST(Straggler, IsWhoWaitsForItsData) {
  RanksReport r = four();
  r.data_ms[1] = 150;
  EXPECT_EQ(straggler_in(r), "Worker 1 waits for its data 150 ms a step where the others wait 0.00: it holds all up.");
}

TEST(Straggler, OrTheLinkThatTakesLong) {
  RanksReport r = four();
  r.exposed_ms = {200, 200, 200, 200}, r.sending_ms[2] = 200;
  EXPECT_EQ(straggler_in(r),
            "Worker 2 sends at 40.0 Mbit/s, the others more than 3 times as fast: its link holds all up.");
  r.sending_ms[3] = 190;
  EXPECT_EQ(straggler_in(r),
            "Workers 2 and 3 send at 40.0 Mbit/s, the others more than 3 times as fast: the link of one of them holds "
            "all up.");
  r.sending_ms = {10, 190, 10, 200};
  EXPECT_EQ(straggler_in(r), "") << "not neighbours: the last ranks of two machines, whose link others share";
  r = four();
  r.sending_ms[2] = 200, r.exposed_ms = {1, 1, 1, 1};
  EXPECT_EQ(straggler_in(r), "") << "nobody waits";
}

TEST(Straggler, FiguresAreMeansOverAllSteps) {
  RanksReport a = four(), b = four();
  a.steps = 300, b.step = 500, b.compute_ms[0] = 80;
  const RanksReport both = joined(joined({}, a), b);
  EXPECT_EQ(both.steps, 400);
  EXPECT_EQ(both.step, 500);
  EXPECT_DOUBLE_EQ(both.compute_ms[0], 50);
  EXPECT_DOUBLE_EQ(both.bytes_sent[3], 1e6);
  RanksReport other{.steps = 7, .compute_ms = {1, 2}};
  EXPECT_EQ(joined(both, other).compute_ms.size(), 2u) << "another number of workers";
}

/// A worker that sleeps before each forward.
class Sleepy final : public Passing {
 public:
  using Passing::Passing;
  Tensor loss() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    return Passing::loss();
  }
};

TEST(Straggler, ATrainingTellsOfItsRanks) {
  Recipe recipe(perceptron, 3);
  recipe.trainer.steps = 12, recipe.trainer.epochs = 4, recipe.trainer.eval_every = 0, recipe.trainer.audit_every = 0;
  recipe.wrap = [](std::unique_ptr<Workload> inner, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    if (worker.rank != 1) return inner;
    return std::make_unique<Sleepy>(std::move(inner));
  };
  const Outcome outcome = train(recipe);
  EXPECT_TRUE(outcome.summary.straggler.starts_with("Worker 1 computes ")) << outcome.summary.straggler;
  ASSERT_EQ(outcome.ranks.size(), 1u) << "at the end";
  const RanksReport& ranks = outcome.ranks[0];
  EXPECT_EQ(ranks.step, 12);
  EXPECT_EQ(ranks.steps, 11) << "the first does not count";
  ASSERT_EQ(ranks.compute_ms.size(), 3u);
  EXPECT_GE(ranks.compute_ms[1], 40.0 * 8 / 11) << "it has samples in all but the last step of an epoch";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(ranks.bytes_sent[i], 0) << i;
  recipe.workers = 1;
  EXPECT_TRUE(train(recipe).ranks.empty()) << "alone";
}

}  // namespace
}  // namespace laconic
