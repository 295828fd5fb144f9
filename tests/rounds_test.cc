#include "dist/method/method.h"
#include "dist/method/rounds/rounds_sync.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"

namespace laconic::dist::rounds_test {
namespace {

using namespace dense_training;
using Rules = RoundsSync::Rules;

struct Outcome {
  std::vector<std::vector<float>> values, joint;  // by rank
  double drift = 0;
};

struct Setting {
  int workers = 3;
  Rules rules{};
  Overlap overlap = Overlap::forward;
  PlanOptions plan{};
  bool flushes = false;  // after every step
};

Outcome run(const Setting& s, int steps) {
  const auto N = static_cast<std::size_t>(s.workers);
  Outcome outcome{.values = std::vector<std::vector<float>>(N), .joint = std::vector<std::vector<float>>(N)};
  on_ranks(s.workers, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    const TrainingFacts facts{.workers = s.workers, .overlap = s.overlap};
    const Plan plan = make_plan(arena.parameters(), s.plan, s.workers);
    RoundsSync sync({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = sgd}, s.rules);
    for (int step = 1; step <= (s.flushes ? steps : 0); ++step) train(sync, arena, w.rank, step, step);
    if (!s.flushes) train(sync, arena, w.rank, 1, steps);
    const auto r = static_cast<std::size_t>(w.rank);
    outcome.values[r] = arena.values().to_vector();
    sync.show_joint_model();
    outcome.joint[r] = arena.values().to_vector();
    sync.hide_joint_model();
    EXPECT_TRUE(same_bits(arena.values().to_vector(), outcome.values[r]));
    if (w.rank == 0) outcome.drift = *sync.drift();
  });
  return outcome;
}

/// The algorithm element by element, in one thread and double. Every parameter is a fragment, or all are one.
std::vector<std::vector<double>> oracle(int N, const Rules& rules, int steps) {
  const ParameterArena arena(some_parameters());
  const std::vector<float> start = arena.values().to_vector();
  std::vector<std::vector<double>> w(static_cast<std::size_t>(N), {start.begin(), start.end()});
  for (const auto& p : arena.parameters()) {
    const std::int64_t ahead = rules.fragments == 1 ? 0 : p->info.index * rules.every / rules.fragments;
    for (std::int64_t e = p->info.offset; e < p->info.offset + p->info.elements; ++e) {
      const auto i = static_cast<std::size_t>(e);
      double x = start[i], v = 0, came = 0;
      std::int64_t due = 0;
      for (int step = 1; step <= steps; ++step) {
        double sum = 0;
        for (int r = 0; r < N; ++r) {
          double& own = w[static_cast<std::size_t>(r)][i];
          const double gradient = gradient_at(r, step, i, static_cast<float>(own));
          sum += gradient;
          if (step > rules.dense_steps) own -= lr_of(step) * gradient;
        }
        if (step <= rules.dense_steps) {
          for (auto& own : w) x = own[i] -= lr_of(step) * sum / N;
          continue;
        }
        if ((step - rules.dense_steps + ahead) % rules.every == 0) {
          came = 0;
          for (const auto& own : w) came += (x - own[i]) / N;
          due = step + rules.delay;
        }
        if (due != step) continue;
        v = rules.momentum * v + came;
        x -= rules.lr * (rules.nesterov ? came + rules.momentum * v : v);
        for (auto& own : w) own[i] = rules.mix * own[i] + (1 - rules.mix) * x;
      }
    }
  }
  return w;
}

void expect_near(const std::vector<std::vector<float>>& values, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t r = 0; r < values.size(); ++r)
    for (std::size_t i = 0; i < values[r].size(); ++i)
      ASSERT_NEAR(values[r][i], expected[r][i], 1e-4 * (1 + std::abs(expected[r][i]))) << "rank " << r << ", " << i;
}

TEST(Rounds, OfOneStepAreDenseStepsForEveryAllreduce) {
  for (const std::string& allreduce : algorithms())
    for (const int N : {1, 2, 3}) {
      SCOPED_TRACE(concat(allreduce, ", ", N, " workers"));
      std::vector<double> dense;
      {
        const ParameterArena arena(some_parameters());
        dense = dense_training::oracle(arena, N, 5, N);
      }
      const Outcome rounds =
          run({.workers = N, .rules = {.every = 1}, .plan = plan_options(allreduce, "copy:10KiB", 0)}, 5);
      expect_near(rounds.values, std::vector(static_cast<std::size_t>(N), dense));
      EXPECT_LT(rounds.drift, 1e-6);
    }
}

const Rules kRules[] = {
    {.every = 4},
    {.every = 3, .lr = 0.7, .momentum = 0.9, .nesterov = true},
    {.every = 5, .lr = 0.8, .momentum = 0.5, .dense_steps = 2},
    {.every = 4, .delay = 3, .mix = 0.5, .lr = 0.7, .momentum = 0.9, .nesterov = true},
    {.every = 6, .fragments = 8, .delay = 2, .mix = 0.25, .lr = 0.9},
    {.every = 3, .fragments = 8, .delay = 1, .lr = 0.7, .momentum = 0.9, .nesterov = true, .dense_steps = 2},
    {.every = 100},
};

TEST(Rounds, DoWhatTheFormulaSaysAndNeitherOverlapNorAFlushChangesABit) {
  for (const Rules& rules : kRules)
    for (const int N : {1, 3}) {
      SCOPED_TRACE(concat(N, " workers, H = ", rules.every, ", P = ", rules.fragments, ", TAU = ", rules.delay));
      Setting setting{.workers = N, .rules = rules, .plan = {.bucket_bytes = 0, .chunk_bytes = 7000}};
      const Outcome first = run(setting, 13);
      expect_near(first.values, oracle(N, rules, 13));
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        setting.overlap = overlap, setting.flushes = overlap != Overlap::backward;
        const Outcome other = run(setting, 13);
        for (std::size_t r = 0; r < first.values.size(); ++r)
          EXPECT_TRUE(same_bits(other.values[r], first.values[r])) << to_string(overlap);
      }
      for (const auto& joint : first.joint) EXPECT_TRUE(same_bits(joint, first.joint[0]));
      for (std::size_t i = 0; i < first.joint[0].size(); ++i) {
        double mean = 0;
        for (const auto& values : first.values) mean += values[i] / N;
        ASSERT_NEAR(first.joint[0][i], mean, 1e-5 * (1 + std::abs(mean)));
      }
      EXPECT_EQ(first.drift > 1e-6, N > 1);
    }
}

TEST(Rounds, PassThroughACodecAndKeepWhatItLoses) {
  const Rules rules{.every = 2, .lr = 0.7, .momentum = 0.9, .nesterov = true};
  Setting setting{.workers = 3, .rules = rules};
  const Outcome plain = run(setting, 9);
  setting.plan.codec = "bf16";
  const Outcome coded = run(setting, 9);
  EXPECT_FALSE(same_bits(coded.values[0], plain.values[0]));
  for (std::size_t i = 0; i < plain.values[0].size(); ++i)
    ASSERT_NEAR(coded.values[0][i], plain.values[0][i], 2e-2 * (1 + std::abs(plain.values[0][i])));
}

TEST(Rounds, SendOnlyWhenOneEndsAndAsMuchAsTheySay) {
  const auto method = dist::method("rounds", {{"every", "4"}});
  on_ranks(2, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    const TrainingFacts facts{.workers = 2};
    const Plan plan = make_plan(arena.parameters(), {}, 2);
    const auto sync = method->worker({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = sgd});
    std::uint64_t sent = w.engine.counters().sent.bytes;
    for (int step = 1; step <= 8; ++step) {
      train(*sync, arena, w.rank, step, step);
      const std::uint64_t now = w.engine.counters().sent.bytes;
      const double expected = step % 4 == 0 ? 4 * *method->expected_bytes(plan, arena.parameters(), facts) : 0;
      EXPECT_NEAR(static_cast<double>(now - std::exchange(sent, now)), expected, 0.02 * expected) << "step " << step;
    }
  });
}

TEST(Rounds, HaveNoMoreFragmentsThanMessages) {
  expect_error<UsageError>([] { run({.workers = 1, .rules = {.fragments = 9}, .plan = {.bucket_bytes = 0}}, 1); },
                           {"travels in 8 messages", "9 fragments", "`fragments`", "at most 8"});
}

}  // namespace
}  // namespace laconic::dist::rounds_test
