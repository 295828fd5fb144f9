// 1-bit Adam against a slow one in double, and what it promises: nothing is lost, the same bits, the bytes that it
// says.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "compress/codecs/signs.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "dist/method/method.h"
#include "dist/method/onebit_adam/onebit_rules.h"
#include "optim/optimizer.h"
#include "tests/error_of.h"
#include "tests/on_host.h"
#include "tests/on_ranks.h"
#include "tests/whole_forward.h"

namespace laconic::dist {
namespace {

constexpr std::int64_t kWarmup = 3;
constexpr OnebitRules kRules{.warmup = kWarmup};
constexpr double kRate = 0.01;

std::unique_ptr<Method> method_of(const OnebitRules& rules) {
  return method("onebit-adam",
                {{"onebit-warmup", std::to_string(rules.warmup)}, {"onebit-refresh", std::to_string(rules.refresh)}});
}

std::vector<std::shared_ptr<Parameter>> onebit_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv", {6, 2, 3, 3}, Role::conv},
                                                                {"bias", {19}, Role::bias},
                                                                {"fc", {17, 21}, Role::linear},
                                                                {"number", {1}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
    raw::fill(parameters.back()->value(), 1.0f);
  }
  return parameters;
}

/// Every seventh element has none in the warm-up, and every seventh never has one.
float onebit_gradient(int rank, std::int64_t step, std::size_t i) {
  if ((i % 7 == 3 && step <= kWarmup) || i % 7 == 5) return 0;
  return Random(9, Purpose::test, static_cast<std::uint64_t>(step * 100 + rank), i).normal() + 0.5f;
}

struct OnebitRun {
  OnebitRules rules = kRules;
  OptimizerOptions optimizer{.name = "adam"};
  Overlap overlap = Overlap::forward;
  int threads = 1;
  PlanOptions plan{.bucket_bytes = 0, .chunk_bytes = 0};  // a bucket each
  Device device = kCpu;
  std::function<void(Strategy&, int rank)> before_last{};  // between steps
};
struct OnebitTrained {
  std::vector<float> values, errors, server_errors, moment;
  std::uint64_t last_bytes = 0;  // of the last step
  double expected_bytes = 0;
};

/// Gradients are a formula of rank and step.
std::vector<OnebitTrained> train_onebit(int N, int steps, const OnebitRun& run) {
  std::vector<OnebitTrained> all(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    set_kernel_threads(run.threads);
    const ParameterArena arena(onebit_parameters(), run.device);
    const Plan plan = make_plan(arena.parameters(), run.plan, N);
    const TrainingFacts facts{.workers = N, .optimizer = run.optimizer.name, .overlap = run.overlap};
    const auto optimizer = make_optimizer(arena, run.optimizer);
    const auto half = method_of(run.rules)->worker(
        {.facts = facts,
         .arena = arena,
         .engine = w.engine,
         .plan = plan,
         .update = [&](Parameter& p, Rows rows,
                       const StepContext& c) { optimizer->update(p, rows, c.lr, c.gradient_scale); },
         .moments = {.form = [&](Parameter& p, Rows rows) { optimizer->form_moment(p, rows); },
                     .take = [&](Parameter& p, Rows rows, const StepContext& c,
                                 std::int64_t seen) { optimizer->take_moment(p, rows, c.lr, seen); },
                     .freeze = [&] { optimizer->freeze_second_moment(); },
                     .thaw = [&](std::int64_t missed) { optimizer->thaw_second_moment(missed); }}});
    Strategy& sync = *half;
    OnebitTrained& mine = all[static_cast<std::size_t>(w.rank)];
    for (int step = 1; step <= steps; ++step) {
      if (step == steps) sync.flush();
      if (step == steps && run.before_last) run.before_last(sync, w.rank);
      const std::uint64_t before = w.engine.counters().sent.bytes;
      sync.begin_step({.step = step, .lr = kRate});
      whole_forward(sync, arena);
      for (const auto& p : arena.parameters()) {
        {
          OnHost grad(p->grad());
          for (std::int64_t i = 0; i < p->info.elements; ++i)
            grad[i] = onebit_gradient(w.rank, step, static_cast<std::size_t>(p->info.offset + i));
        }
        const Rows rows = p->all_rows();
        if (rows.count > 1) sync.gradient_ready(*p, {0, rows.count / 2});
        sync.gradient_ready(*p, {rows.count / 2, rows.count - rows.count / 2});
      }
      sync.end_step();
      if (step < steps) continue;
      sync.flush();
      mine.last_bytes = w.engine.counters().sent.bytes - before;
    }
    mine.values = arena.values().to_vector();
    RankState held;
    sync.save(held);
    mine.errors = held.at("onebit-adam/errors").to_vector();
    mine.server_errors = held.at("onebit-adam/server_errors").to_vector();
    StateDict state;
    optimizer->save(state);
    mine.moment = state.at("first_moment").to_vector();
    mine.expected_bytes =
        method("onebit-adam", {{"onebit-warmup", "3"}})->expected_bytes(plan, arena.parameters(), facts).value_or(-1);
  });
  return all;
}

using SlowVector = std::vector<double>;

/// Sign times mean magnitude, for each rank's part of the vector.
SlowVector slow_signs(const SlowVector& x, std::size_t N) {
  SlowVector y(x.size());
  for (std::size_t r = 0; r < N; ++r) {
    const std::size_t begin = x.size() * r / N, end = x.size() * (r + 1) / N;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += std::abs(x[i]);
    for (std::size_t i = begin; i < end; ++i) y[i] = (x[i] < 0 ? -sum : sum) / double(end - begin);
  }
  return y;
}

/// Steps that are dense, by going through all.
std::vector<bool> slow_dense_steps(const OnebitRules& rules, int steps) {
  std::vector<bool> dense(static_cast<std::size_t>(steps) + 1);
  for (std::int64_t t = 1; t <= std::min<std::int64_t>(steps, rules.warmup); ++t)
    dense[static_cast<std::size_t>(t)] = true;
  std::int64_t t = rules.warmup;
  for (std::int64_t interval = 1; rules.refresh > 0 && t <= steps; interval *= 2)
    for (std::int64_t i = 0; i < rules.refresh; ++i)
      if ((t += interval) <= steps) dense[static_cast<std::size_t>(t)] = true;
  return dense;
}

TEST(OnebitAdam, DenseStepsBecomeRare) {
  for (const OnebitRules& rules : {OnebitRules{}, {.warmup = 1, .refresh = 1}, {.warmup = 5, .refresh = 3}}) {
    const std::vector<bool> dense = slow_dense_steps(rules, 500);
    for (std::int64_t t = 1, seen = 0; t <= 500; ++t) {
      seen += dense[static_cast<std::size_t>(t)];
      ASSERT_EQ(rules.dense(t), dense[static_cast<std::size_t>(t)]) << t;
      ASSERT_EQ(rules.seen(t), seen) << t;
    }
  }
}

/// One parameter, as Algorithm 1 has it, with Adam's bias corrections and weight decay.
struct SlowOnebit {
  std::size_t workers;
  double decay;
  bool decoupled;
  SlowVector w, m, v, server;
  std::vector<SlowVector> errors{};  // by worker
  int seen = 0;                      // gradients, by v

  void step(int t, bool dense, const std::vector<SlowVector>& g) {
    const std::size_t n = w.size();
    seen += dense;
    for (std::size_t i = 0; dense && i < n; ++i)
      if (v[i] == 0) m[i] = 0;  // it rested
    if (dense)
      for (std::size_t i = 0; i < n; ++i) {
        double mean = 0;
        for (const SlowVector& one : g) mean += one[i] / double(workers);
        if (!decoupled) mean += decay * w[i];
        m[i] = 0.9 * m[i] + 0.1 * mean;
        v[i] = 0.999 * v[i] + 0.001 * mean * mean;
      }
    if (!dense) {
      const double largest = *std::max_element(v.begin(), v.end());
      for (double& x : v) x = x > 0 ? std::max(x, 1e-4 * largest) : 0;  // 0: rests
      SlowVector average = server;
      for (std::size_t r = 0; r < workers; ++r) {
        SlowVector x(n);
        for (std::size_t i = 0; i < n; ++i)
          x[i] = 0.9 * m[i] + 0.1 * (g[r][i] + (decoupled ? 0 : decay * w[i])) + errors[r][i];
        const SlowVector sent = slow_signs(x, workers);
        for (std::size_t i = 0; i < n; ++i) errors[r][i] = x[i] - sent[i], average[i] += sent[i] / double(workers);
      }
      m = slow_signs(average, workers);
      for (std::size_t i = 0; i < n; ++i) server[i] = average[i] - m[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (decoupled) w[i] *= 1 - kRate * decay;
      const double root = std::sqrt(v[i] / (1 - std::pow(0.999, seen)));
      if (dense || v[i] > 0) w[i] -= kRate / (1 - std::pow(0.9, t)) * m[i] / (root + 1e-8);
    }
  }
};

TEST(OnebitAdam, DoesWhatTheSlowOneDoes) {
  constexpr int kSteps = 9;
  const OnebitRules refreshed{.warmup = kWarmup, .refresh = 1};  // 4, 6 and 10 are dense too
  const auto dense = [&](const OnebitRules& rules) { return slow_dense_steps(rules, kSteps); };
  using Case = std::tuple<const char*, double, OnebitRules>;
  for (const int N : {1, 3})
    for (const auto& [name, decay, rules] :
         {Case{"adam", 0.0, kRules}, Case{"adam", 0.1, kRules}, Case{"adamw", 0.1, kRules},
          Case{"adam", 0.1, refreshed}, Case{"adamw", 0.1, refreshed}}) {
      SCOPED_TRACE(concat(N, " workers, ", name, ", decay ", decay, ", refreshed ", rules.refresh));
      const auto fast =
          train_onebit(N, kSteps, {.rules = rules, .optimizer = {.name = name, .decay = {.weight_decay = decay}}});
      const ParameterArena arena(onebit_parameters());
      const auto workers = static_cast<std::size_t>(N);
      int resting = 0;
      for (const auto& p : arena.parameters()) {
        const auto n = static_cast<std::size_t>(p->info.elements), offset = static_cast<std::size_t>(p->info.offset);
        const SlowVector zero(n);
        SlowOnebit slow{workers, decay, name == std::string("adamw"), SlowVector(n, 1.0), zero, zero, zero};
        slow.errors.assign(workers, zero);
        for (int t = 1; t <= kSteps; ++t) {
          std::vector<SlowVector> g(workers, zero);
          for (std::size_t r = 0; r < workers; ++r)
            for (std::size_t i = 0; i < n; ++i) g[r][i] = onebit_gradient(static_cast<int>(r), t, offset + i);
          slow.step(t, dense(rules)[static_cast<std::size_t>(t)], g);
        }
        for (std::size_t i = 0; i < n; ++i) {
          SCOPED_TRACE(concat(p->info.name, ", ", i));
          resting += slow.v[i] == 0;
          double server = 0;
          for (std::size_t r = 0; r < workers; ++r) {
            ASSERT_NEAR(fast[r].values[offset + i], slow.w[i], 1e-4);
            ASSERT_NEAR(fast[r].moment[offset + i], slow.m[i], 1e-5);
            ASSERT_NEAR(fast[r].errors[offset + i], slow.errors[r][i], 1e-5);
            server += double{fast[r].server_errors[offset + i]};
          }
          ASSERT_NEAR(server, slow.server[i], 1e-5);
        }
      }
      EXPECT_EQ(resting > 50, decay == 0 || name == std::string("adamw")) << "without a gradient";
    }
}

TEST(OnebitAdam, OverlapThreadsAndDeviceChangeNoBit) {
  for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
    const PlanOptions plan{.bucket_bytes = bucket_bytes, .chunk_bytes = 700};
    const auto first = train_onebit(3, 7, {.plan = plan});
    for (const OnebitTrained& t : first) ASSERT_TRUE(same_bits(t.values, first[0].values));
    for (const auto& other : {train_onebit(3, 7, {.overlap = Overlap::none, .plan = plan}),
                              train_onebit(3, 7, {.overlap = Overlap::backward, .threads = 3, .plan = plan}),
                              train_onebit(3, 7, {.threads = 2, .plan = plan, .device = kTrap})})
      for (std::size_t r = 0; r < other.size(); ++r) {
        ASSERT_TRUE(same_bits(other[r].values, first[r].values));
        ASSERT_TRUE(same_bits(other[r].errors, first[r].errors));
        ASSERT_TRUE(same_bits(other[r].server_errors, first[r].server_errors));
      }
  }
}

/// What workers hold, and what was applied, add up to what they had: also where a checkpoint of others has left errors
/// of averages with workers who do not make these averages.
TEST(OnebitAdam, LosesNothing) {
  constexpr int N = 3;
  for (const int steps : {int{kWarmup} + 1, int{kWarmup} + 3}) {
    const std::vector<OnebitTrained> before = train_onebit(N, steps - 1, {.plan = {.chunk_bytes = 0}});
    const bool first = steps == kWarmup + 1;  // then the errors of averages come from elsewhere
    const auto stray = [](int rank, std::size_t i) { return 0.01f * static_cast<float>((i * 7 + rank) % 13) - 0.05f; };
    const auto after =
        train_onebit(N, steps, {.plan = {.chunk_bytes = 0}, .before_last = [&](Strategy& sync, int rank) {
                                  if (!first) return;
                                  const ParameterArena arena(onebit_parameters());
                                  const Tensor errors = arena.make_state(), server = arena.make_state();
                                  for (const auto& p : arena.parameters())
                                    for (std::int64_t i = p->info.offset; i < p->info.offset + p->info.elements; ++i)
                                      server.data<float>()[i] = stray(rank, static_cast<std::size_t>(i));
                                  StateDict state;
                                  state.set("onebit-adam/errors", errors);
                                  state.set("onebit-adam/server_errors", server);
                                  sync.load(state);
                                }});
    const ParameterArena arena(onebit_parameters());
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        double had = 0, has = double{after[0].moment[i]};
        for (int r = 0; r < N; ++r) {
          const auto k = static_cast<std::size_t>(r);
          had += (0.9 * before[k].moment[i] + 0.1 * onebit_gradient(r, steps, i) + before[k].errors[i]) / N +
                 (first ? stray(r, i) : before[k].server_errors[i]);
          has += double{after[k].errors[i]} / N + double{after[k].server_errors[i]};
        }
        ASSERT_NEAR(has, had, 1e-5) << p->info.name << ", " << i;
      }
  }
}

TEST(OnebitAdam, SendsExactlyWhatItSays) {
  for (const int N : {1, 2, 3, 5})
    for (const PlanOptions& plan : {PlanOptions{.bucket_bytes = 0, .chunk_bytes = 300}, PlanOptions{}}) {
      double sent = 0;
      const auto all = train_onebit(N, kWarmup + 2, {.plan = plan});
      for (const OnebitTrained& t : all) sent += static_cast<double>(t.last_bytes);
      EXPECT_DOUBLE_EQ(sent / N, all[0].expected_bytes) << N;
      EXPECT_LT(sent / N, 485.0 * 4 / 2) << "or these are no bits";
    }
}

TEST(OnebitAdam, NeedsMoments) {
  on_ranks(1, [](Worker& w) {
    const ParameterArena arena(onebit_parameters());
    const Plan plan = make_plan(arena.parameters(), {}, 1);
    const TrainingFacts facts{};
    EXPECT_EQ(error_of<UsageError>([&] {
                method_of(kRules)->worker({.facts = facts, .arena = arena, .engine = w.engine, .plan = plan});
              }),
              "what `sync` onebit-adam sends is Adam's momentum, and sgd has none (`optimizer`): take adam or adamw");
  });
}

TEST(ScaledSigns, SayEachStretchForItself) {
  compress::ScaledSigns signs;
  signs.add(0, 9), signs.add(10, 2);
  EXPECT_EQ(signs.bytes(), 4u + 2 + 4 + 1);
  std::vector<float> x{1, -1, 0, 3, -3, 1, 1, -1, -7, 99, 0, 4}, left = x;
  std::vector<std::byte> message(signs.bytes());
  signs.extract(left.data(), message.data());
  std::vector<float> sent(12, 5.0f);
  signs.read(message.data(), sent.data());
  EXPECT_EQ(sent, (std::vector<float>{2, -2, 2, 2, -2, 2, 2, -2, -2, 5, 2, 2}));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(left[i], i == 9 ? 99 : x[i] - sent[i]);
  std::vector<float> sum(12);
  signs.add_to(message.data(), 0.5f, sum.data());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(sum[i], i == 9 ? 0 : sent[i] / 2);
  x[1] = NAN;
  signs.extract(x.data(), message.data());
  signs.read(message.data(), sent.data());
  EXPECT_TRUE(std::isnan(sent[0]) && std::isnan(sent[8])) << "is not hidden";
  EXPECT_EQ(sent[10], 2);
}

}  // namespace
}  // namespace laconic::dist
