// PowerSGD against a slow one, and what it promises: conservation, the same bits, no division by zero.
#include <cmath>
#include <set>

#include "compress/low_rank.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "dist/method/method.h"
#include "dist/plan/choice.h"
#include "tests/dense_training.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"
#include "tests/test_devices.h"

namespace laconic::dist {
namespace {

using dense_training::sgd;
using SlowColumns = std::vector<std::vector<double>>;  // of a matrix; or rows

double slow_dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// As a textbook has it: each column loses its shares of those before it, and is scaled to length 1.
void slow_gram_schmidt(SlowColumns& columns) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double share = slow_dot(columns[i], columns[j]);
      for (std::size_t k = 0; k < columns[i].size(); ++k) columns[i][k] -= share * columns[j][k];
    }
    const double length = std::sqrt(slow_dot(columns[i], columns[i]));
    for (double& v : columns[i]) v /= length;
  }
}

float normal_number(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return Random(seed, Purpose::test, a, b).normal();
}

TEST(Orthonormalise, MakesRowsOrthonormalInTheirOrder) {
  constexpr std::int64_t kRows = 4, kLength = 5001;
  std::vector<float> x(kRows * kLength);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e-12f * (normal_number(1, 0, i) + 3);  // nearly one direction
  const std::vector<float> before = x;
  compress::orthonormalise(x.data(), kRows, kLength);
  SlowColumns rows, old;
  for (std::int64_t r = 0; r < kRows; ++r) {
    rows.emplace_back(x.begin() + r * kLength, x.begin() + (r + 1) * kLength);
    old.emplace_back(before.begin() + r * kLength, before.begin() + (r + 1) * kLength);
  }
  slow_gram_schmidt(old);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows.size(); ++j) {
      EXPECT_NEAR(slow_dot(rows[i], rows[j]), i == j, 1e-6) << i << " and " << j;
      if (i == j) { EXPECT_NEAR(slow_dot(rows[i], old[i]), 1, 1e-6); }
    }
}

TEST(Orthonormalise, LeavesZerosOfWhatOtherRowsExplain) {
  std::vector<float> x{3, 4, 0, 0, 0, 0, 6, 8, 0, 1, 1, 1};
  compress::orthonormalise(x.data(), 4, 3);
  EXPECT_EQ((std::vector<float>(x.begin() + 3, x.begin() + 9)), std::vector<float>(6)) << "zeros, and twice the first";
  EXPECT_NEAR(x[0] * x[9] + x[1] * x[10] + x[2] * x[11], 0, 1e-6);
  x[4] = std::nanf("");
  compress::orthonormalise(x.data(), 4, 3);
  EXPECT_TRUE(std::isnan(x[4])) << "is not hidden";
}

/// A model with what sends two matrices (rank 2: "conv", "fc", "tall"), and what does not.
std::vector<std::shared_ptr<Parameter>> mixed_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv", {12, 3, 3, 3}, Role::conv},
                                                                {"bias", {12}, Role::bias},
                                                                {"fc", {40, 30}, Role::linear},
                                                                {"tall", {200, 9}, Role::linear},
                                                                {"small", {8, 8}, Role::linear},
                                                                {"number", {1}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
    raw::fill(parameters.back()->value(), 0.0f);
  }
  return parameters;
}

std::unique_ptr<Method> of_rank(const std::string& rank, const std::string& warmup = "none") {
  return method("powersgd", {{"rank", rank}, {"warmup", warmup}});
}

Plan low_rank_plan(const ParameterArena& arena, const Method& method, int N, std::size_t chunk = 0,
                   const std::string& allreduce = "ring") {
  PlanOptions options{.chunk_bytes = chunk, .chunk_sparse = true};
  set_allreduce(options, allreduce);
  method.shape(options, {});
  return make_plan(arena.parameters(), options, N);
}

TEST(PowerSgdPlan, MatricesOfWhichItSavesHalfSendTwo) {
  const ParameterArena arena(mixed_parameters());
  const Plan plan = low_rank_plan(arena, *of_rank("2"), 3);
  std::set<std::string> low;
  for (const Bucket& b : plan.buckets)
    if (b.sparse()) low.insert(b.name + ": " + to_string(b.choice));
  EXPECT_EQ(low, (std::set<std::string>{"conv: rank 2", "fc: rank 2", "tall: rank 2"}));
  EXPECT_EQ(Plan::from_json(plan.json(), arena.parameters(), "here").json(), plan.json());
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = plan.json();
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    EXPECT_THROW(Plan::from_json(text.replace(at, from.size(), to), arena.parameters(), "here"), DataError) << to;
  };
  refused("\"rank\":2", "\"rank\":13");
  refused("\"rank\":2", "\"rank\":0");
  refused("\"rank\":2", "\"rank\":2,\"choice\":\"exact\"");
  refused("\"pieces\":1}", "\"pieces\":1,\"rank\":1}");  // of several
  EXPECT_FALSE(low_rank_plan(arena, *of_rank("20"), 3).sparse()) << "nothing saves half";
}

/// One worker, whose gradients are a formula; of "fc" they are of rank 1 if that is asked for.
struct LowRankTraining {
  LowRankTraining(Worker& w, const Method& method, Overlap overlap = Overlap::forward, std::size_t chunk = 0,
           const std::string& allreduce = "ring", Device device = kCpu)
      : worker(w), arena(mixed_parameters(), device), made(low_rank_plan(arena, method, w.size, chunk, allreduce)) {
    facts = {.workers = w.size, .overlap = overlap, .seed = 9, .steps_per_epoch = 3, .ledger_every = 1};
    WorkerSide side{.facts = facts, .arena = arena, .engine = w.engine, .plan = made, .update = sgd};
    sync = method.worker(std::move(side));
  }

  static float gradient(int rank, std::int64_t step, std::size_t i) {
    return normal_number(2, static_cast<std::uint64_t>(step) * 100 + static_cast<std::uint64_t>(rank), i) +
           0.5f * static_cast<float>(i % 5);
  }

  void steps(std::int64_t from, std::int64_t to, const std::function<float(std::int64_t, std::size_t)>& gradient) {
    for (std::int64_t step = from; step <= to; ++step) {
      sync->begin_step({.step = step, .lr = 0.1});
      whole_forward(*sync, arena);
      for (const auto& p : arena.parameters()) {
        {
          OnHost grad(p->grad());
          for (std::int64_t i = 0; i < p->info.elements; ++i)
            grad[i] = gradient(step, static_cast<std::size_t>(p->info.offset + i));
        }
        const std::int64_t all = p->all_rows().count, chunk = p->chunk_rows() > 0 ? p->chunk_rows() : all;
        for (std::int64_t first = 0; first < all; first += chunk)
          sync->gradient_ready(*p, {first, std::min(chunk, all - first)});
      }
      sync->end_step();
    }
    sync->flush();
  }
  void steps(std::int64_t from, std::int64_t to) {
    steps(from, to, [r = worker.rank](std::int64_t step, std::size_t i) { return gradient(r, step, i); });
  }
  std::vector<float> errors() const {
    RankState state;
    sync->save(state);
    return state.at("powersgd/errors").to_vector();
  }

  Worker& worker;
  ParameterArena arena;
  Plan made;
  TrainingFacts facts{};
  std::unique_ptr<Strategy> sync;
};

/// A matrix of the oracle: Algorithm 1 and 2 in double, entry by entry.
struct SlowPowerSgd {
  std::int64_t n, m;
  SlowColumns q;                            // [rank][m]
  std::vector<std::vector<double>> e;  // by worker

  /// What all workers apply. gradients : by worker
  std::vector<double> step(const std::vector<std::vector<double>>& gradients) {
    SlowColumns p(q.size(), std::vector<double>(static_cast<std::size_t>(n)));
    slow_gram_schmidt(q);
    const std::size_t N = gradients.size();
    for (std::size_t w = 0; w < N; ++w)
      for (std::size_t i = 0; i < e[w].size(); ++i) e[w][i] += gradients[w][i];
    const auto at = [&](std::size_t i, std::size_t j) { return i * static_cast<std::size_t>(m) + j; };
    const auto each = [&](const auto& f) {
      for (std::size_t r = 0; r < q.size(); ++r)
        for (std::size_t i = 0; i < p[r].size(); ++i)
          for (std::size_t j = 0; j < q[r].size(); ++j) f(r, i, j);
    };
    for (std::size_t w = 0; w < N; ++w)
      each([&](std::size_t r, std::size_t i, std::size_t j) { p[r][i] += e[w][at(i, j)] * q[r][j]; });
    slow_gram_schmidt(p);
    for (auto& column : q) std::fill(column.begin(), column.end(), 0.0);
    for (std::size_t w = 0; w < N; ++w)
      each([&](std::size_t r, std::size_t i, std::size_t j) {
        q[r][j] += e[w][at(i, j)] * p[r][i] / static_cast<double>(N);
      });
    std::vector<double> applied(static_cast<std::size_t>(n * m));
    each([&](std::size_t r, std::size_t i, std::size_t j) { applied[at(i, j)] += p[r][i] * q[r][j]; });
    for (auto& error : e)
      for (std::size_t i = 0; i < error.size(); ++i) error[i] -= applied[i];
    return applied;
  }
};

TEST(PowerSgd, DoesWhatTheSlowOneDoes) {
  constexpr int kSteps = 10;  // errors that are fed back enlarge roundings
  for (const int N : {1, 3})
    for (const char* rank : {"1", "3"}) {
      SCOPED_TRACE(concat(N, " ranks, rank ", rank));
      const auto method = of_rank(rank);
      std::vector<float> values;
      RankState start;
      on_ranks(N, [&](Worker& w) {
        LowRankTraining t(w, *method);
        if (w.rank == 0) {
          t.sync->save(start);
          for (const auto& p : t.arena.parameters())
            if (const Tensor* q = start.find("powersgd/" + p->info.name + "/q")) {
              Tensor copy = Tensor::empty(q->shape());
              copy.copy_from(*q);
              start.set("powersgd/" + p->info.name + "/q", copy, Join::equal);
            }
        }
        t.steps(1, kSteps);
        if (w.rank == 0) values = t.arena.values().to_vector();
      });
      const ParameterArena arena(mixed_parameters());
      for (const auto& p : arena.parameters()) {
        const ParameterInfo& info = p->info;
        const auto [n, m] = matrix_size(info.shape);
        std::vector<double> expected(static_cast<std::size_t>(info.elements));
        SlowPowerSgd slow{n, m, {}, SlowColumns(static_cast<std::size_t>(N), expected)};
        if (const Tensor* q = start.find("powersgd/" + info.name + "/q"))
          for (std::int64_t r = 0; r < q->dim(0); ++r) {
            const std::vector<float> row = q->rows(r, 1).to_vector();
            slow.q.emplace_back(row.begin(), row.end());
          }
        for (int step = 1; step <= kSteps; ++step) {
          std::vector<std::vector<double>> gradients(static_cast<std::size_t>(N), expected);
          std::vector<double> mean(expected.size());
          for (int w = 0; w < N; ++w)
            for (std::size_t i = 0; i < mean.size(); ++i) {
              gradients[static_cast<std::size_t>(w)][i] =
                  LowRankTraining::gradient(w, step, static_cast<std::size_t>(info.offset) + i);
              mean[i] += gradients[static_cast<std::size_t>(w)][i] / N;
            }
          const std::vector<double> applied = slow.q.empty() ? mean : slow.step(gradients);
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.1 * applied[i];
        }
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(values[static_cast<std::size_t>(info.offset) + i], expected[i],
                      2e-4 * (1 + std::abs(expected[i])))
              << info.name << ", element " << i;
      }
    }
}

TEST(PowerSgd, WhatIsNotAppliedIsTheErrorsOfAll) {
  constexpr int N = 3, kSteps = 6;
  const auto method = of_rank("2");
  std::vector<std::vector<float>> values(N), errors(N);
  on_ranks(N, [&](Worker& w) {
    LowRankTraining t(w, *method);
    t.steps(1, kSteps);
    values[static_cast<std::size_t>(w.rank)] = t.arena.values().to_vector();
    errors[static_cast<std::size_t>(w.rank)] = t.errors();
  });
  const ParameterArena arena(mixed_parameters());
  double left = 0;
  for (const auto& p : arena.parameters())
    for (auto i = static_cast<std::size_t>(p->info.offset);
         i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
      double gathered = 0, error = 0;
      for (int w = 0; w < N; ++w) {
        for (int step = 1; step <= kSteps; ++step) gathered += LowRankTraining::gradient(w, step, i);
        error += errors[static_cast<std::size_t>(w)][i];
      }
      ASSERT_NEAR(-values[0][i] / 0.1 * N + error, gathered, 2e-4 * (1 + std::abs(gathered))) << p->info.name;
      left += std::abs(error);
    }
  EXPECT_GT(left, 100) << "or this would prove nothing";
}

TEST(PowerSgd, EveryOverlapAllreduceAndChunkGivesTheSameBitsOnAllRanks) {
  const auto method = of_rank("2", "dense:1");
  for (const auto& row : combinations({4, dense_training::algorithms().size(), 2})) {
    const int N = static_cast<int>(row[0]) + 1;
    const std::string allreduce = dense_training::algorithms()[row[1]];
    SCOPED_TRACE(concat(N, " ranks, ", allreduce, ", chunks of ", row[2] * 2000));
    std::vector<float> first;
    for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
      std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
      on_ranks(N, [&](Worker& w) {
        LowRankTraining t(w, *method, overlap, row[2] * 2000, allreduce);
        t.steps(1, 5);
        values[static_cast<std::size_t>(w.rank)] = t.arena.values().to_vector();
      });
      if (first.empty()) first = values[0];
      for (const auto& v : values) ASSERT_TRUE(same_bits(v, first)) << to_string(overlap);
    }
  }
}

TEST(PowerSgd, GradientsOfZeroAndOfLowerRankAreNoTrouble) {
  const auto method = of_rank("2");
  on_ranks(2, [&](Worker& w) {
    LowRankTraining t(w, *method);
    const auto zero = [](std::int64_t, std::size_t) { return 0.0f; };
    t.steps(1, 3, zero);
    for (const float v : t.arena.values().to_vector()) ASSERT_EQ(v, 0);
    // Every matrix has rank 1: one number for all elements.
    t.steps(4, 9, [](std::int64_t step, std::size_t) { return static_cast<float>(step); });
    double sum = 0;
    for (int step = 4; step <= 9; ++step) sum += step;
    for (const auto& p : t.arena.parameters())
      for (const float v : p->value().to_vector()) ASSERT_NEAR(v, -0.1 * sum, 1e-4) << p->info.name;
    for (const float e : t.errors()) ASSERT_NEAR(e, 0, 1e-4);
    // Columns of Q that have nothing to tell come back when there is something.
    RankState before, after;
    const auto second = [](const StateDict& state) { return state.at("powersgd/fc/q").rows(1, 1).to_vector(); };
    t.sync->save(before);
    EXPECT_EQ(second(before), std::vector<float>(30));
    t.steps(10, 12);
    t.sync->save(after);
    EXPECT_NE(second(after), std::vector<float>(30));
  });
}

TEST(PowerSgd, RunsOnTheTrapDeviceAsOnTheHost) {
  const auto method = of_rank("2");
  std::vector<std::vector<float>> values(2);
  for (const bool trap : {false, true})
    on_ranks(2, [&](Worker& w) {
      LowRankTraining t(w, *method, Overlap::forward, 0, "ring", trap ? kTrap : kCpu);
      t.steps(1, 3);
      if (w.rank == 0) values[trap] = t.arena.values().to_vector();
    });
  EXPECT_TRUE(same_bits(values[0], values[1]));
}

}  // namespace
}  // namespace laconic::dist
