// RedSync and its neighbours: exactness, conservation, the same bits on all ranks, resuming, messages that are none.
#include "dist/sync/redsync.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/raw.h"
#include "dist/collective/allgather.h"
#include "dist/sync/methods.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

using compress::IndexCoding;
using compress::Method;

/// Parameters of all kinds, registered first to last as a model would; those from 1,000 bytes on send a choice.
std::vector<std::shared_ptr<Parameter>> some_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv", {16, 3, 3, 3}, Role::conv},
                                                                {"bn", {16}, Role::norm},
                                                                {"fc1.weight", {64, 100}, Role::linear},
                                                                {"fc1.bias", {64}, Role::bias},
                                                                {"one", {1}, Role::bias},
                                                                {"fc2.weight", {60, 64}, Role::linear},
                                                                {"embedding", {30, 20}, Role::embedding},
                                                                {"odd", {257, 1}, Role::linear},
                                                                {"out.weight", {10, 60}, Role::linear},
                                                                {"out.bias", {10}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
    parameters.back()->info.output = std::string(name).starts_with("out");
    raw::fill(parameters.back()->value(), static_cast<float>(parameters.size()) * 0.25f);
  }
  return parameters;
}
bool is_large(const ParameterInfo& info) { return info.elements >= 250; }

/// What rank `rank` finds in step `step` at place i of the arena: heavy tails, other ones on every rank and in every
/// step.
float gradient_at(int rank, std::int64_t step, std::size_t i) {
  std::uint64_t x = (static_cast<std::uint64_t>(step) * 64 + static_cast<std::uint64_t>(rank)) << 32 | i;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;  // splitmix64
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  const float u = static_cast<float>(static_cast<std::int64_t>(x ^ x >> 31)) * 0x1p-63f;  // -1 … 1
  return u * u * u * u * u + 0.05f * static_cast<float>(i % 7) - 0.15f;
}

/// One worker: parameters, an optimiser of our own that keeps a velocity, and the strategy.
struct Training {
  struct Settings {
    std::string sync = "redsync";
    SparseOptions sparse{.selector = "exact", .masking = false};
    float momentum = 0, decay = 0;
    bool nesterov = false, mean = true;
    Overlap overlap = Overlap::forward;
    std::size_t chunk = 7000;  // bytes: fc1.weight and fc2.weight come in chunks of 16 rows
    double clip = 0;
    float pull = 0;  // of the gradient to the parameter's value
    double lr = 0.05;
    std::function<std::optional<double>(std::int64_t)> density{};
    std::function<void(const Parameter&, Slice<const float>)> watch{};
    Device device = kCpu;
    std::int64_t ledger_every = 0;
  };

  Training(Worker& w, Settings settings)
      : s(std::move(settings)), worker(w), arena(some_parameters(), s.device), velocity(arena.make_state()) {
    const SparseMethod& method = *sparse_method(s.sync);
    PlanOptions plan{.chunk_bytes = s.chunk, .sparse = dispatch_of(method, s.sparse)};
    plan.sparse.dense_below = 1000;
    RedSync::Options options = redsync_options(method, s.sparse, 1'000'000);
    options.mean = s.mean;
    options.overlap = s.overlap;
    options.clip_norm = s.clip;
    options.watch = s.watch;
    options.ledger_every = s.ledger_every;
    options.rules.seed = 9;
    if (s.density) options.density = s.density;
    if (method.corrects) {
      options.rules.momentum = s.momentum;
      options.rules.nesterov = s.nesterov;
      options.weight_decay = [decay = s.decay](const ParameterInfo&) { return decay; };
    }
    sync = std::make_unique<RedSync>(
        arena, w.engine, make_plan(arena.parameters(), plan, w.size),
        [this](Parameter& p, Rows rows, const StepContext& c) { update(p, rows, c); },
        s.momentum > 0 && method.corrects ? velocity : Tensor(), std::move(options));
  }

  /// Dense momentum SGD.
  void update(Parameter& p, Rows rows, const StepContext& c) {
    const HostAccess access(s.device);
    const std::int64_t row = p.info.elements / p.all_rows().count;
    float* value = p.value().data<float>();
    const float* grad = p.grad().data<float>();
    float* u = velocity.data<float>() + p.info.offset;
    for (std::int64_t i = rows.first * row; i < (rows.first + rows.count) * row; ++i) {
      const float g = static_cast<float>(c.gradient_scale) * grad[i] + s.decay * value[i];
      u[i] = s.momentum * u[i] + g;
      value[i] -= static_cast<float>(c.lr) * (s.nesterov ? s.momentum * u[i] + g : u[i]);
    }
    p.value().bump_version();
  }

  void steps(std::int64_t from, std::int64_t to, StepStats* stats = nullptr) {
    const auto& parameters = arena.parameters();
    for (std::int64_t step = from; step <= to; ++step) {
      sync->begin_step({.step = step, .lr = s.lr});
      for (std::size_t i = parameters.size(); i-- > 0;) {
        Parameter& p = *parameters[i];
        const std::int64_t all = p.all_rows().count, chunk = p.chunk_rows() > 0 ? p.chunk_rows() : all;
        for (std::int64_t first = 0; first < all; first += chunk)
          sync->before_forward(p, {first, std::min(chunk, all - first)});
      }
      for (const auto& p : parameters) {
        {
          const HostAccess access(s.device);
          for (std::int64_t i = 0; i < p->info.elements; ++i)
            p->grad().data<float>()[i] = gradient_at(worker.rank, step, static_cast<std::size_t>(p->info.offset + i)) +
                                         s.pull * p->value().data<float>()[i];
        }
        const std::int64_t all = p->all_rows().count, chunk = p->chunk_rows() > 0 ? p->chunk_rows() : all;
        for (std::int64_t first = 0; first < all; first += chunk)
          sync->gradient_ready(*p, {first, std::min(chunk, all - first)});
      }
      StepStats last;
      sync->end_step(stats == nullptr ? last : *stats);
    }
    sync->flush();
  }

  std::vector<float> values() const { return arena.values().to_vector(); }

  Settings s;
  Worker& worker;
  ParameterArena arena;
  Tensor velocity;
  std::unique_ptr<RedSync> sync;
};
using Settings = Training::Settings;

/// Values of all ranks after some steps.
std::vector<std::vector<float>> train(int N, const Settings& s, int steps) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    Training t(w, s);
    t.steps(1, steps);
    values[static_cast<std::size_t>(w.rank)] = t.values();
  });
  return values;
}

/// Dense momentum SGD with the mean (or sum) gradient, in double. `u` of large parameters and small ones may follow
/// other rules: with `large_momentum` false large ones have none, and their lr is multiplied.
std::vector<double> oracle(int N, const Settings& s, int steps, bool masked = false) {
  const ParameterArena arena(some_parameters());
  const std::vector<float> start = arena.values().to_vector();
  std::vector<double> w(start.begin(), start.end()), u(w.size());
  for (int step = 1; step <= steps; ++step)
    for (const auto& p : arena.parameters()) {
      const bool plain = masked && is_large(p->info);
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        double g = 0;
        for (int r = 0; r < N; ++r) g += gradient_at(r, step, i) + double{s.pull} * w[i];
        g = (s.mean ? g / N : g) + double{s.decay} * w[i];
        if (plain) {
          w[i] -= s.lr * (s.nesterov ? 1 + double{s.momentum} : 1) * g;
        } else {
          u[i] = s.momentum * u[i] + g;
          w[i] -= s.lr * (s.nesterov ? s.momentum * u[i] + g : u[i]);
        }
      }
    }
  return w;
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

TEST(RedSync, WithAllElementsAndNoMaskingIsDenseMomentumSgd) {
  for (const int N : {1, 3})
    for (const bool mean : {true, false})
      for (const auto& [momentum, nesterov] : {std::pair{0.0f, false}, {0.9f, false}, {0.9f, true}})
        for (const float decay : {0.0f, 0.01f}) {
          SCOPED_TRACE(
              concat(N, " ranks, mean ", mean, ", momentum ", momentum, ", nesterov ", nesterov, ", decay ", decay));
          Settings s{.momentum = momentum, .decay = decay, .nesterov = nesterov, .mean = mean, .pull = 0.1f};
          s.sparse.density = 1;
          expect_near(train(N, s, 100)[0], oracle(N, s, 100), 2e-5);
        }
}

// All of U is cleared in every step: heavy ball becomes plain SGD, Nesterov SGD with lr (1 + m). What travels densely
// keeps its momentum.
TEST(RedSync, WithAllElementsMaskedIsPlainSgd) {
  for (const bool nesterov : {false, true}) {
    Settings s{.momentum = 0.9f, .decay = 0.01f, .nesterov = nesterov, .pull = 0.1f};
    s.sparse.density = 1;
    s.sparse.masking = true;
    expect_near(train(2, s, 100)[0], oracle(2, s, 100, true), 2e-5);
  }
}

TEST(RedSync, ManyElementsAreNotAllElements) {  // or the tests above would prove nothing about selection
  Settings s{.momentum = 0.9f};
  s.sparse.density = 0.5;
  const auto values = train(2, s, 10)[0];
  const auto all = oracle(2, s, 10);
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) most = std::max(most, std::abs(values[i] - all[i]));
  EXPECT_GT(most, 1e-3);
}

// Gradients that do not depend on w, one lr, no masking: when a dense phase has sent what was left, all is where dense
// training would be.
TEST(RedSync, FromDenseToSparseToDenseNothingIsLost) {
  for (const int N : {1, 3})
    for (const bool mean : {true, false})
      for (const bool split : {false, true})
        for (const bool nesterov : {false, true}) {
          SCOPED_TRACE(concat(N, " ranks, mean ", mean, ", split ", split, ", nesterov ", nesterov));
          Settings s{.momentum = 0.9f, .nesterov = nesterov, .mean = mean};
          s.sparse.split = split;
          s.density = [](std::int64_t step) { return step <= 5 || step > 25 ? std::nullopt : std::optional(0.02); };
          expect_near(train(N, s, 30)[0], oracle(N, s, 30), 2e-5);
        }
}

TEST(RedSync, WithoutMomentumCorrectionTheResidualGoesWithTheNextDenseGradient) {
  for (const char* sync : {"topk", "gradient-dropping", "randomk"}) {
    Settings s{.sync = sync};
    s.density = [](std::int64_t step) { return step <= 5 || step > 25 ? std::nullopt : std::optional(0.02); };
    expect_near(train(3, s, 30)[0], oracle(3, s, 30), 2e-5);
  }
}

struct Case {
  const char* name;
  std::function<void(Settings&)> set;
};
const Case kCases[] = {
    {"exact", [](Settings& s) { s.sparse.selector = "exact"; }},
    {"radix, masked", [](Settings& s) { s.sparse.selector = "radix", s.sparse.masking = true; }},
    {"paper, packed", [](Settings& s) { s.sparse.selector = "paper", s.sparse.delta = true, s.sparse.masking = true; }},
    {"trimmed, rice",
     [](Settings& s) { s.sparse.selector = "trimmed", s.sparse.delta = true, s.sparse.seconds_per_byte = 1e-6; }},
    {"search, split", [](Settings& s) { s.sparse.selector = "search", s.sparse.split = true; }},
    {"sampled, masked", [](Settings& s) { s.sparse.selector = "sampled", s.sparse.masking = true; }},
    {"auto",
     [](Settings& s) { s.sparse.selector = "auto", s.sparse.latency_seconds = 0, s.sparse.seconds_per_byte = 1; }},
    {"qrgc", [](Settings& s) { s.sparse.selector = "exact", s.sparse.quantised = true; }},
    {"qrgc, masked, search, packed",
     [](Settings& s) { s.sparse.selector = "search", s.sparse.quantised = s.sparse.masking = s.sparse.delta = true; }},
    {"qrgc, split", [](Settings& s) { s.sparse.selector = "exact", s.sparse.quantised = s.sparse.split = true; }},
    {"split, masked, packed", [](Settings& s) { s.sparse.split = s.sparse.masking = s.sparse.delta = true; }},
    {"nesterov", [](Settings& s) { s.nesterov = true; }},
    {"dgc", [](Settings& s) { s.sync = "dgc", s.sparse.masking = true, s.sparse.warmup = Warmup{}; }},
    {"topk", [](Settings& s) { s.sync = "topk"; }},
    {"topk, split", [](Settings& s) { s.sync = "topk", s.sparse.split = true; }},
    {"gradient-dropping", [](Settings& s) { s.sync = "gradient-dropping"; }},
    {"adacomp", [](Settings& s) { s.sync = "adacomp"; }},
    {"strom", [](Settings& s) { s.sync = "strom", s.sparse.threshold = 0.2; }},
    {"randomk", [](Settings& s) { s.sync = "randomk"; }},
    {"clipped", [](Settings& s) { s.clip = 5; }},
    {"adacomp, clipped", [](Settings& s) { s.sync = "adacomp", s.clip = 5; }},
};
Settings settings_of(const Case& c) {
  Settings s{.momentum = 0.9f};
  s.sparse.density = 0.02;
  c.set(s);
  return s;
}

/// Over all ranks, everything that was sent and the residuals add up to everything that was put into the residuals.
TEST(RedSync, WhatWasSentPlusWhatIsOwedIsWhatWasGathered) {
  constexpr int kSteps = 200;
  for (const Case& c : kCases)
    for (const int N : {1, 3}) {
      if (N == 1 && &c > &kCases[2]) continue;  // the exchange is what differs
      SCOPED_TRACE(concat(c.name, ", ", N, " ranks"));
      Settings s = settings_of(c);
      if (s.clip > 0) continue;  // what was gathered is not known here
      s.mean = false, s.lr = 1;
      const bool corrects = sparse_method(s.sync)->corrects;
      if (!corrects) s.momentum = 0;
      const std::size_t ranks = static_cast<std::size_t>(N);
      std::vector<std::vector<double>> gathered(ranks), owed(ranks);
      std::vector<float> start, values;
      on_ranks(N, [&](Worker& w) {
        Training t(w, s);
        auto& mine = gathered[static_cast<std::size_t>(w.rank)];
        mine.assign(static_cast<std::size_t>(t.arena.size()), 0.0);
        if (w.rank == 0) start = t.values();
        for (int step = 1; step <= kSteps; ++step) {
          const std::vector<float> u = t.velocity.to_vector();
          t.steps(step, step);
          for (std::size_t i = 0; i < mine.size(); ++i) {
            const double g = gradient_at(w.rank, step, i);
            const double velocity = corrects ? double{s.momentum} * u[i] + g : g;
            mine[i] += s.nesterov ? s.momentum * velocity + g : velocity;
          }
        }
        const std::vector<float> v = t.sync->residual().to_vector();
        owed[static_cast<std::size_t>(w.rank)].assign(v.begin(), v.end());
        if (w.rank == 0) values = t.values();
      });
      const ParameterArena arena(some_parameters());
      for (const auto& p : arena.parameters()) {
        if (!is_large(p->info)) continue;
        for (auto i = static_cast<std::size_t>(p->info.offset);
             i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
          double in = 0, out = double{start[i]} - values[i];
          for (std::size_t r = 0; r < ranks; ++r) in += gathered[r][i], out += owed[r][i];
          ASSERT_NEAR(in, out, 1e-4 * (10 + std::abs(in))) << p->info.name << ", element " << i;
        }
      }
    }
}

TEST(RedSync, AllRanksHoldTheSameBitsWhateverTheOverlap) {
  std::size_t row = 0;
  for (const Case& c : kCases)
    for (const int N : {1 + static_cast<int>(row++ % 9), 4}) {
      SCOPED_TRACE(concat(c.name, ", ", N, " ranks"));
      Settings s = settings_of(c);
      std::vector<float> first;
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        s.overlap = overlap;
        const auto values = train(N, s, 12);
        if (first.empty()) first = values[0];
        for (const auto& v : values) ASSERT_TRUE(same_bits(v, first)) << to_string(overlap);
      }
      for (const float v : first) ASSERT_TRUE(std::isfinite(v));
    }
}

TEST(RedSync, FlushingInBetweenChangesNoBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<float> once, often;
    for (const bool flushed : {false, true})
      on_ranks(3, [&](Worker& w) {
        Training t(w, settings_of(c));
        if (flushed)
          for (int step = 1; step <= 8; ++step) t.steps(step, step);
        else
          t.steps(1, 8);
        if (w.rank == 1) (flushed ? often : once) = t.values();
      });
    EXPECT_TRUE(same_bits(once, often));
  }
}

TEST(RedSync, GoesOnFromItsSavedStateBitForBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Settings s = settings_of(c);
    const auto straight = train(3, s, 14);
    on_ranks(3, [&](Worker& w) {
      StateDict state;
      std::vector<float> values, velocity;
      {
        Training t(w, s);
        t.steps(1, 7);
        t.sync->save(state);
        values = t.values(), velocity = t.velocity.to_vector();
      }
      Training t(w, s);
      t.arena.values().copy_from(Tensor::of({t.arena.size()}, values));
      t.velocity.copy_from(Tensor::of({t.arena.size()}, velocity));
      t.sync->load(state);
      t.steps(8, 14);
      EXPECT_TRUE(same_bits(t.values(), straight[static_cast<std::size_t>(w.rank)]));
    });
  }
}

TEST(RedSync, APhaseThatHasBegunIsNotBegunAgainAfterResuming) {
  Settings s{.momentum = 0.9f, .mean = false};
  s.density = [](std::int64_t step) { return step <= 5 ? std::nullopt : std::optional(0.02); };
  const auto straight = train(2, s, 12)[0];
  on_ranks(2, [&](Worker& w) {
    StateDict state;
    std::vector<float> values, velocity;
    {
      Training t(w, s);
      t.steps(1, 8);
      t.sync->save(state);
      values = t.values(), velocity = t.velocity.to_vector();
    }
    Training t(w, s);
    t.arena.values().copy_from(Tensor::of({t.arena.size()}, values));
    t.velocity.copy_from(Tensor::of({t.arena.size()}, velocity));
    t.sync->load(state);
    t.steps(9, 12);
    EXPECT_TRUE(same_bits(t.values(), straight));
  });
}

TEST(RedSync, RefusesAStateThatIsNotItsOwn) {
  on_ranks(1, [&](Worker& w) {
    Training t(w, {});
    StateDict state;
    EXPECT_THROW(t.sync->load(state), DataError);
    t.sync->save(state);
    state.set("redsync/residual", Tensor::zeros({3}));
    EXPECT_THROW(t.sync->load(state), DataError);
  });
}

TEST(RedSync, AddsUpInRankOrderWhateverTheDensityOfTheirChoices) {
  // Every rank sends all of `odd`: the mean is the dense one.
  Settings s;
  s.sparse.density = 1;
  s.lr = 1;
  const auto values = train(9, s, 1);
  const auto expected = oracle(9, s, 1);
  expect_near(values[8], expected, 1e-5);
}

TEST(RedSync, ClipsEachWorkersOwnGradientBeforeItIsGathered) {
  for (const char* sync : {"redsync", "adacomp"}) {
    Settings s{.sync = sync, .clip = 3, .lr = 1};
    s.sparse.density = 1;
    std::vector<std::vector<float>> values(2);
    on_ranks(2, [&](Worker& w) {
      Training t(w, s);
      const std::vector<float> start = t.values();
      t.steps(1, 1);
      const std::vector<float> after = t.values(), v = t.sync->residual().to_vector();
      // What this rank has gathered: its share of the update and what it owes; both ranks' together are the update.
      std::vector<float> rest(after.size());
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = 2 * (start[i] - after[i]) + v[i];
      values[static_cast<std::size_t>(w.rank)] = std::string(sync) == "redsync" ? rest : v;
    });
    if (std::string(sync) != "redsync") continue;  // its choice is not all: that it runs is shown above
    const ParameterArena arena(some_parameters());
    double norm[2] = {0, 0};
    for (const auto& p : arena.parameters())
      for (std::int64_t i = p->info.offset; i < p->info.offset + p->info.elements; ++i)
        for (int r = 0; r < 2; ++r) norm[r] += std::pow(gradient_at(r, 1, static_cast<std::size_t>(i)), 2);
    ASSERT_GT(std::sqrt(norm[0]), 3.5);
    for (const auto& p : arena.parameters())
      for (std::int64_t i = p->info.offset; i < p->info.offset + p->info.elements; ++i) {
        double sum = 0;
        for (int r = 0; r < 2; ++r)
          sum += gradient_at(r, 1, static_cast<std::size_t>(i)) * std::min(1.0, 3 / std::sqrt(norm[r]));
        ASSERT_NEAR(values[0][static_cast<std::size_t>(i)], sum, 1e-5) << p->info.name;
      }
  }
}

TEST(RedSync, QuantisedSendsOneSignAtATimeAndKeepsTheErrorOnlyIfAsked) {
  for (const bool feedback : {true, false}) {
    Settings s{.lr = 1};
    s.sparse.quantised = true, s.sparse.feedback = feedback, s.sparse.density = 0.1;
    std::map<std::string, std::vector<float>> residuals;
    s.watch = [&](const Parameter& p, Slice<const float> v) { residuals[p.info.name] = {v.begin(), v.end()}; };
    on_ranks(1, [&](Worker& w) {
      Training t(w, s);
      for (int step = 1; step <= 4; ++step) {
        const std::vector<float> before = t.values();
        t.steps(step, step);
        const std::vector<float> after = t.values(), v = t.sync->residual().to_vector();
        for (const auto& p : t.arena.parameters()) {
          if (!is_large(p->info)) continue;
          const std::vector<float>& was = residuals.at(p->info.name);
          int sent = 0;
          for (std::int64_t i = 0; i < p->info.elements; ++i) {
            const auto at = static_cast<std::size_t>(p->info.offset + i);
            const float moved = before[at] - after[at];
            if (moved == 0) continue;
            ++sent;
            if (p->info.output) continue;  // with its own values, of both signs
            EXPECT_EQ(moved > 0, step % 2 == 1) << p->info.name;
            EXPECT_EQ(was[static_cast<std::size_t>(i)] > 0, step % 2 == 1) << p->info.name;
            EXPECT_NEAR(v[at], feedback ? was[static_cast<std::size_t>(i)] - moved : 0, 1e-5);
          }
          EXPECT_EQ(sent, elements_to_send(p->info.elements, 0.1)) << p->info.name;
        }
      }
    });
  }
}

TEST(RedSync, StatesTheBytesThatItHandsToTheNetwork) {
  for (const bool split : {false, true}) {
    std::uint64_t after = 0;
    double expected = 0;
    on_ranks(4, [&](Worker& w) {
      Settings s;
      s.sparse.density = 0.02, s.sparse.split = split;
      Training t(w, s);
      t.steps(1, 1);
      const std::uint64_t one = w.engine.counters().sent.bytes;
      StepStats stats;
      t.steps(2, 11, &stats);
      EXPECT_GT(stats.select_ms, 0);
      EXPECT_LT(stats.bytes_sent, stats.bytes_dense);
      std::vector<double> sum{static_cast<double>(w.engine.counters().sent.bytes - one)};
      w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, slice(sum)); });
      if (w.rank == 0) {
        after = static_cast<std::uint64_t>(sum[0] / 40);
        expected = expected_bytes(t.sync->plan(), t.arena.parameters(), s.sparse, 4).value();
      }
    });
    // Owners whose range few chose from return less than their share.
    EXPECT_NEAR(static_cast<double>(after), expected, (split ? 0.3 : 0.05) * expected) << split;
  }
}

LedgerRow row_of(const std::vector<LedgerRow>& rows, const std::string& parameter) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const LedgerRow& r) { return r.parameter == parameter; });
  EXPECT_NE(found, rows.end()) << parameter;
  return found == rows.end() ? LedgerRow{} : *found;
}

/// The ledger of rank 0 and all bytes that all ranks have sent in 20 steps.
std::pair<std::vector<LedgerRow>, double> ledger_of(int N, Settings s) {
  s.ledger_every = 5;
  std::vector<LedgerRow> rows;
  double bytes = 0;
  on_ranks(N, [&](Worker& w) {
    Training t(w, s);
    const std::uint64_t before = w.engine.counters().sent.bytes;
    t.steps(1, 20);
    std::vector<double> sum{static_cast<double>(w.engine.counters().sent.bytes - before)};
    double own = 0;
    for (const LedgerRow& r : t.sync->ledger()) own += r.bytes;
    sum.push_back(own);
    w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, slice(sum)); });
    if (w.rank != 0) return;
    rows = t.sync->ledger();
    bytes = sum[0];
    EXPECT_NEAR(sum[1], sum[0], 1e-3 * sum[0]) << "what the ledgers say is what was sent";
  });
  return {rows, bytes};
}

// RedSync's facts: an allgather's traffic grows with the ranks, the union of their choices nearly so.
TEST(RedSync, AllgatherTrafficGrowsWithTheRanksAndThatOfASplitDoesNot) {
  constexpr double k = 128;  // of fc1.weight's 6,400 elements
  double last_union = 0;
  for (const int N : {2, 3, 4, 8, 16}) {
    SCOPED_TRACE(N);
    Settings s;
    s.sparse.density = 0.02;
    const LedgerRow gathered = row_of(ledger_of(N, s).first, "fc1.weight");
    EXPECT_EQ(gathered.exchanges, 20);
    EXPECT_EQ(gathered.measured, 4);
    EXPECT_EQ(gathered.sent, k);
    EXPECT_EQ(gathered.bytes / 20, (N - 1) * (8 * k + 8));
    EXPECT_GT(gathered.union_density, last_union);
    EXPECT_LE(gathered.union_density, N * 0.02);
    last_union = gathered.union_density;
    s.sparse.split = true;
    const LedgerRow split = row_of(ledger_of(N, s).first, "fc1.weight");
    EXPECT_LE(split.bytes / 20, 6 * 4 * k + 12 * (N - 1)) << "6 k words, and headers";
  }
  EXPECT_GT(last_union, 0.1);
}

TEST(RedSync, TheLedgerSaysWhatWasSentAndWhatWaits) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto [rows, bytes] = ledger_of(3, settings_of(c));
    EXPECT_EQ(rows.back().parameter, "(others)");
    EXPECT_EQ(rows.front().parameter, "conv");
    for (const LedgerRow& r : rows) {
      if (r.choice == "all") continue;
      EXPECT_EQ(r.exchanges, 20);
      EXPECT_NEAR(r.energy_sent + r.energy_held, 1, 1e-9);
      EXPECT_GT(r.energy_sent, 0);
      EXPECT_GT(r.energy_held, 0);
      EXPECT_GE(r.oldest, 1);
      EXPECT_LE(r.oldest, 20);
    }
  }
}

TEST(RedSync, TheOldestIsTheOneThatNoStepHasChosen) {
  Settings s{.sync = "randomk"};
  s.sparse.density = 1;
  EXPECT_EQ(row_of(ledger_of(2, s).first, "odd").oldest, 0);
  s.sync = "strom", s.sparse.density = 1e-3, s.sparse.threshold = 1e6;
  EXPECT_EQ(row_of(ledger_of(2, s).first, "odd").oldest, 20);
}

TEST(RedSync, OfOneRankSendsNothing) {
  on_ranks(1, [&](Worker& w) {
    Training t(w, {});
    t.steps(1, 5);
    EXPECT_EQ(w.engine.counters().sent.messages, 0u);
  });
}

TEST(RedSync, LeavesDeviceMemoryToKernels) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Settings s = settings_of(c);
    const auto expected = train(2, s, 4);
    s.device = kTrap;
    EXPECT_TRUE(same_bits(train(2, s, 4)[0], expected[0]));
  }
}

TEST(RedSync, AnExceptionOfTheWorkerLeavesNoOperationInFreedMemory) {
  EXPECT_THROW(on_ranks(3,
                        [&](Worker& w) {
                          Training t(w, {});
                          t.steps(1, 3);
                          t.sync->begin_step({.step = 4, .lr = 1});
                          for (const auto& p : t.arena.parameters()) {
                            if (w.rank == 1 && p->info.index == 5) throw DataError("a bad image");
                            t.sync->gradient_ready(*p, p->all_rows());
                          }
                          t.sync->flush();
                        }),
               DataError);
}

TEST(RedSync, AGradientThatIsNotANumberIsSaidSo) {
  std::string said;
  try {
    on_ranks(2, [&](Worker& w) {
      Training t(w, {});
      t.sync->begin_step({.step = 1, .lr = 1});
      for (const auto& p : t.arena.parameters()) {
        raw::fill(p->grad(), 1.0f);
        if (p->info.name == "fc1.weight" && w.rank == 1) p->grad().data<float>()[77] = std::nanf("");
        t.sync->gradient_ready(*p, p->all_rows());
      }
      t.sync->flush();
    });
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find("the residual of fc1.weight at step 1"), std::string::npos) << said;
}

TEST(RedSync, AMessageThatIsNoneEndsWithTheRankThatSentIt) {
  for (const bool split : {false, true})
    for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{4}, std::size_t{40}}) {
      SCOPED_TRACE(concat("split ", split, ", ", length, " bytes"));
      std::string said;
      try {
        on_ranks(2, [&](Worker& w) {
          Settings s;
          s.sparse.split = split, s.sparse.density = 0.1;
          if (w.rank == 0) {
            Training t(w, s);
            t.sync->begin_step({.step = 1, .lr = 1});
            Parameter& p = *t.arena.parameters()[7];  // fc1.weight
            for (const Rows rows : {Rows{0, 16}, Rows{16, 48}}) t.sync->gradient_ready(p, rows);
            t.sync->flush();
            return;
          }
          Training t(w, s);
          // The same slot: after the dense ones come those of parameters with a choice, in arena order.
          int slot = 1 + static_cast<int>(t.sync->plan().buckets.size());
          for (int i = 0; i < 7; ++i) slot += t.sync->plan().sparse(i);
          const std::vector<std::byte> garbage(length, std::byte{0xEE});
          std::vector<compress::Bytes> parts(2);
          std::copy(garbage.begin(), garbage.end(), parts[0].append(length).begin());
          Gathered all;
          const std::size_t most = SparseWire{}.max_bytes(640, 6400);
          const Ticket ticket = w.engine.submit({.name = "garbage", .slot = slot, .body = [&](Communicator& comm) {
                                                   return split ? alltoallv(comm, parts, most, all)
                                                                : allgatherv(comm, slice(garbage), most, all);
                                                 }});
          w.engine.wait(ticket);
        });
      } catch (const CommError& e) {
        said = e.what();
      }
      EXPECT_NE(said.find("rank 1 sent"), std::string::npos) << said;
    }
}

}  // namespace
}  // namespace laconic::dist
