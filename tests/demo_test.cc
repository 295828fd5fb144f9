// DeMo against a slow one in double, and what it promises: what is not sent stays, the same bits, no damage.
#include <cmath>
#include <cstring>
#include <numbers>

#include "compress/codecs/dct_chunks.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "dist/method/method.h"
#include "dist/plan/choice.h"
#include "tests/cuda_devices.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using SlowMatrix = std::vector<std::vector<double>>;

/// An orthonormal DCT-II matrix, from its definition.
SlowMatrix slow_dct(std::size_t n) {
  SlowMatrix d(n, std::vector<double>(n));
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      d[k][i] = std::sqrt((k > 0 ? 2.0 : 1.0) / double(n)) *
                std::cos(std::numbers::pi / double(n) * (double(i) + 0.5) * double(k));
  return d;
}

/// Sum over i and j of x[i][j] r[a][i] c[b][j], or of x[a][b] r[a][i] c[b][j] over a and b.
SlowMatrix slow_transform(const SlowMatrix& x, bool inverse) {
  const std::size_t h = x.size(), w = x[0].size();
  const SlowMatrix r = slow_dct(h), c = slow_dct(w);
  SlowMatrix y(h, std::vector<double>(w));
  for (std::size_t a = 0; a < h; ++a)
    for (std::size_t b = 0; b < w; ++b)
      for (std::size_t i = 0; i < h; ++i)
        for (std::size_t j = 0; j < w; ++j) y[a][b] += x[i][j] * (inverse ? r[i][a] * c[j][b] : r[a][i] * c[b][j]);
  return y;
}

/// One matrix of all workers, as Algorithm 1 has it.
struct SlowDemo {
  std::size_t rows, columns, side, most;
  double decay;
  std::vector<SlowMatrix> m;  // by worker

  /// f(first row, end, first column, end) for each chunk.
  template <class F>
  void for_blocks(F f) const {
    const auto cut = [&](std::size_t n, std::size_t i) {
      const std::size_t parts = (n + side - 1) / side;
      return n * i / parts;
    };
    for (std::size_t i = 0; cut(rows, i) < rows; ++i)
      for (std::size_t j = 0; cut(columns, j) < columns; ++j)
        f(cut(rows, i), cut(rows, i + 1), cut(columns, j), cut(columns, j + 1));
  }

  /// The sum over workers of what each sends. g : by worker
  SlowMatrix step(const std::vector<SlowMatrix>& g) {
    SlowMatrix all(rows, std::vector<double>(columns));
    for (std::size_t n = 0; n < m.size(); ++n) {
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) m[n][i][j] = decay * m[n][i][j] + g[n][i][j];
      for_blocks([&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
        SlowMatrix block;
        for (std::size_t i = i0; i < i1; ++i)
          block.emplace_back(m[n][i].begin() + static_cast<std::ptrdiff_t>(j0),
                             m[n][i].begin() + static_cast<std::ptrdiff_t>(j1));
        SlowMatrix y = slow_transform(block, false);
        std::vector<double> sizes;
        for (const auto& row : y)
          for (const double v : row) sizes.push_back(std::abs(v));
        std::sort(sizes.rbegin(), sizes.rend());
        const double least = sizes[std::min(most, sizes.size()) - 1];
        for (auto& row : y)
          for (double& v : row) v = std::abs(v) >= least ? v : 0;
        const SlowMatrix q = slow_transform(y, true);
        for (std::size_t i = i0; i < i1; ++i)
          for (std::size_t j = j0; j < j1; ++j) m[n][i][j] -= q[i - i0][j - j0], all[i][j] += q[i - i0][j - j0];
      });
    }
    return all;
  }
};

std::vector<std::shared_ptr<Parameter>> demo_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv", {6, 2, 3, 3}, Role::conv},
                                                                {"bias", {19}, Role::bias},
                                                                {"fc", {17, 21}, Role::linear},
                                                                {"number", {1}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
    raw::fill(parameters.back()->value(), 0.0f);
  }
  return parameters;
}

float demo_gradient(int rank, std::int64_t step, std::size_t i) {
  return Random(5, Purpose::test, static_cast<std::uint64_t>(step * 100 + rank), i).normal() +
         std::sin(0.3f * static_cast<float>(i));
}

struct DemoRules {
  int side = 8, most = 5;
  double decay = 0.9;
  bool sign = false;

  std::unique_ptr<Method> method() const {
    return dist::method("demo", {{"demo-chunk", std::to_string(side)},
                                 {"demo-topk", std::to_string(most)},
                                 {"demo-decay", concat(decay)},
                                 {"demo-update", sign ? "sign" : "sum"}});
  }
};
constexpr DemoRules kRules{};

struct Trained {
  std::vector<float> values, momentum;
};

/// Gradients are a formula of rank and step.
std::vector<Trained> train_demo(int N, int steps, DemoRules rules, Overlap overlap = Overlap::forward, int threads = 1,
                                std::size_t bucket_bytes = 1 << 20, Device device = kCpu) {
  std::vector<Trained> all(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    set_kernel_threads(threads);
    const ParameterArena arena(demo_parameters(), device);
    const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = bucket_bytes, .chunk_bytes = 0}, N);
    const TrainingFacts facts{.workers = N, .overlap = overlap};
    const auto half = rules.method()->worker(
        {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
    Strategy& sync = *half;
    for (int step = 1; step <= steps; ++step) {
      sync.begin_step({.step = step, .lr = 0.1});
      whole_forward(sync, arena);
      for (const auto& p : arena.parameters()) {
        {
          OnHost grad(p->grad());
          for (std::int64_t i = 0; i < p->info.elements; ++i)
            grad[i] = demo_gradient(w.rank, step, static_cast<std::size_t>(p->info.offset + i));
        }
        sync.gradient_ready(*p, p->all_rows());
      }
      sync.end_step();
    }
    sync.flush();
    RankState state;
    sync.save(state);
    all[static_cast<std::size_t>(w.rank)] = {arena.values().to_vector(), state.at("demo/momentum").to_vector()};
  });
  return all;
}

/// By parameter: its offset, and what the slow one makes of it.
struct SlowResult {
  std::string name;
  std::size_t offset;
  std::vector<double> values, last_sum;
  std::vector<std::vector<double>> momentum;  // by worker
};
std::vector<SlowResult> train_slowly(int N, int steps, const DemoRules& rules) {
  std::vector<SlowResult> results;
  const ParameterArena arena(demo_parameters());
  for (const auto& p : arena.parameters()) {
    auto [rows, columns] = matrix_size(p->info.shape);
    if (columns == 1) std::swap(rows, columns);
    const SlowMatrix zero(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns)));
    const auto n = static_cast<std::size_t>(N), offset = static_cast<std::size_t>(p->info.offset);
    SlowDemo slow{zero.size(),
                  zero[0].size(),
                  static_cast<std::size_t>(rules.side),
                  static_cast<std::size_t>(rules.most),
                  double{static_cast<float>(rules.decay)},
                  std::vector<SlowMatrix>(n, zero)};
    SlowResult result{p->info.name, offset, std::vector<double>(zero.size() * zero[0].size()), {}, {}};
    for (int step = 1; step <= steps; ++step) {
      std::vector<SlowMatrix> g(n, zero);
      for (int r = 0; r < N; ++r)
        for (std::size_t i = 0; i < slow.rows * slow.columns; ++i)
          g[static_cast<std::size_t>(r)][i / slow.columns][i % slow.columns] = demo_gradient(r, step, offset + i);
      result.last_sum.clear();
      for (const auto& row : slow.step(g)) result.last_sum.insert(result.last_sum.end(), row.begin(), row.end());
      for (std::size_t i = 0; i < result.values.size(); ++i) {
        const double sum = result.last_sum[i];
        result.values[i] -= 0.1 * (rules.sign ? double((sum > 0) - (sum < 0)) : sum / N);
      }
    }
    for (const SlowMatrix& m : slow.m) {
      result.momentum.emplace_back();
      for (const auto& row : m) result.momentum.back().insert(result.momentum.back().end(), row.begin(), row.end());
    }
    results.push_back(std::move(result));
  }
  return results;
}

TEST(Demo, DoesWhatTheSlowOneDoes) {
  constexpr int kSteps = 6;
  for (const int N : {1, 3}) {
    const std::vector<Trained> fast = train_demo(N, kSteps, kRules);
    for (const SlowResult& slow : train_slowly(N, kSteps, kRules))
      for (std::size_t i = 0; i < slow.values.size(); ++i)
        for (std::size_t r = 0; r < fast.size(); ++r) {
          ASSERT_NEAR(fast[r].values[slow.offset + i], slow.values[i], 1e-4)
              << N << " ranks, " << slow.name << ", " << i;
          ASSERT_NEAR(fast[r].momentum[slow.offset + i], slow.momentum[r][i], 1e-4) << slow.name << ", " << i;
        }
  }
}

TEST(Demo, UpdatesBySignsAsThePaperHasIt) {
  DemoRules rules = kRules;
  rules.sign = true;
  const std::vector<Trained> fast = train_demo(3, 1, rules);
  int judged = 0;
  for (const SlowResult& slow : train_slowly(3, 1, rules))
    for (std::size_t i = 0; i < slow.values.size(); ++i) {
      if (std::abs(slow.last_sum[i]) < 1e-4) continue;  // rounding decides
      ++judged;
      ASSERT_NEAR(fast[0].values[slow.offset + i], slow.values[i], 1e-6) << slow.name << ", " << i;
    }
  EXPECT_GT(judged, 400);
}

TEST(Demo, OverlapThreadsAndBucketsChangeNoBit) {
  for (const bool sign : {true, false}) {
    DemoRules rules = kRules;
    rules.sign = sign;
    const std::vector<Trained> first = train_demo(3, 4, rules);
    for (const Trained& t : first) ASSERT_TRUE(same_bits(t.values, first[0].values));
    for (const Trained& t :
         {train_demo(3, 4, rules, Overlap::none)[1], train_demo(3, 4, rules, Overlap::backward, 3)[2],
          train_demo(3, 4, rules, Overlap::forward, 2, 0, kTrap)[0]})
      ASSERT_TRUE(same_bits(t.values, first[0].values));
    for (const Device device : with_cuda({})) {
      const std::vector<Trained> there = train_demo(3, 4, rules, Overlap::forward, 1, 1 << 20, device);
      for (std::size_t r = 0; r < there.size(); ++r) {
        ASSERT_TRUE(same_bits(there[r].values, first[r].values));
        ASSERT_TRUE(same_bits(there[r].momentum, first[r].momentum));
      }
    }
  }
}

TEST(Demo, WhatIsNotSentStays) {
  DemoRules all = kRules;
  all.most = 64;
  const std::vector<float> none = train_demo(2, 3, all)[0].momentum;
  for (const float v : none) ASSERT_NEAR(v, 0, 1e-5) << "all has been sent";
  const std::vector<float> few = train_demo(2, 3, kRules)[0].momentum;
  EXPECT_GT(std::count_if(few.begin(), few.end(), [](float v) { return std::abs(v) > 0.1f; }), 100);
}

TEST(DemoChunks, HaveNearlyEqualSidesAndPlacesThatAscend) {
  const compress::DctChunks chunks({130, 65}, 64, 32);
  EXPECT_EQ(chunks.kept(), 3u * 2 * 32);
  EXPECT_EQ(chunks.message_bytes(), 3u * 2 * 32 * 6);
  EXPECT_EQ(compress::DctChunks({1000}, 64, 32).kept(), 16u * 32);
  EXPECT_EQ(compress::DctChunks({10, 1}, 64, 32).kept(), 10u) << "no chunk sends more than it has";
  const compress::DctChunks equal({1, 8}, 8, 3);
  std::vector<float> m{1, 0, 0, 0, 0, 0, 0, 0};
  std::vector<std::byte> message(equal.message_bytes());
  equal.extract(m.data(), message.data());
  std::uint16_t places[3];
  std::memcpy(places, message.data(), sizeof places);
  EXPECT_TRUE(places[0] < places[1] && places[1] < places[2]);
  m.assign(8, NAN);
  equal.extract(m.data(), message.data());
  std::vector<float> q(8);
  equal.combine({message.data()}, q.data());
  for (const float v : q) EXPECT_TRUE(std::isnan(v)) << "is not hidden";
}

TEST(DemoChunks, RefuseWhatIsNoMessage) {
  const compress::DctChunks chunks({5, 7}, 64, 4);
  std::vector<std::byte> message(chunks.message_bytes());
  EXPECT_NO_THROW(chunks.check(slice(std::as_const(message))));
  message[2] = std::byte{35};  // the second place
  EXPECT_EQ(error_of<DataError>([&] { chunks.check(slice(std::as_const(message))); }),
            "coefficient 35 of a chunk of 35");
  message.pop_back();
  EXPECT_EQ(error_of<DataError>([&] { chunks.check(slice(std::as_const(message))); }),
            "23 bytes where there must be 24");
}

TEST(DemoMethod, SendsExactlyWhatItSays) {
  for (const int N : {2, 3, 5}) {
    std::uint64_t sent = 0;
    std::optional<double> expected;
    on_ranks(N, [&](Worker& w) {
      const auto made = method("demo", {{"demo-topk", "4"}, {"demo-chunk", "16"}});
      const ParameterArena arena(demo_parameters());
      const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = 0, .chunk_bytes = 0}, N);
      const TrainingFacts facts{.workers = N};
      const auto sync = made->worker(
          {.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = dense_training::sgd});
      const std::uint64_t before = w.engine.counters().sent.bytes;
      sync->begin_step({.step = 1, .lr = 0.1});
      for (const auto& p : arena.parameters()) sync->gradient_ready(*p, p->all_rows());
      sync->end_step();
      sync->flush();
      if (w.rank > 0) return;
      sent = w.engine.counters().sent.bytes - before;
      expected = made->expected_bytes(plan, arena.parameters(), facts);
    });
    EXPECT_EQ(static_cast<double>(sent), expected) << N;
  }
}

}  // namespace
}  // namespace laconic::dist
