// One worker of a training with RedSync and no network: gradients that depend on rank, step and place, and what dense
// training would make of them.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/raw.h"
#include "dist/method/redsync/redsync.h"
#include "tests/on_ranks.h"
#include "tests/unwatched.h"
#include "tests/whole_forward.h"

namespace laconic::dist {

/// Parameters of all kinds, registered first to last as a model would; those from 1,000 bytes on send a choice.
inline std::vector<std::shared_ptr<Parameter>> redsync_parameters() {
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
inline bool is_large(const ParameterInfo& info) { return info.elements >= 250; }

/// What rank `rank` finds in step `step` at place i of the arena: heavy tails, other ones on every rank and in every
/// step.
LACONIC_UNWATCHED inline float gradient_at(int rank, std::int64_t step, std::size_t i) {
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
    std::optional<double> latency_seconds{}, seconds_per_byte{};
    const char* allreduce = "ring";
    bool reversed = false;  // gradients become ready last to first
  };

  Training(Worker& w, Settings settings)
      : s(std::move(settings)), worker(w), arena(redsync_parameters(), s.device), velocity(arena.make_state()) {
    const SparseMethod& method = *sparse_method(s.sync);
    const double root = std::sqrt(static_cast<double>(w.size));
    facts = {.workers = w.size,
             .momentum = s.momentum,
             .nesterov = s.nesterov,
             .clip_norm = s.mean ? s.clip / root : s.clip * root,
             .mean = s.mean,
             .overlap = s.overlap,
             .seed = 9,
             .ledger_every = s.ledger_every,
             .latency_seconds = s.latency_seconds,
             .seconds_per_byte = s.seconds_per_byte};
    PlanOptions plan{.chunk_bytes = s.chunk, .chunk_sparse = true, .sparse = dispatch_of(method, s.sparse, facts)};
    plan.sparse.dense_below = 1000;
    set_allreduce(plan, s.allreduce);
    made = make_plan(arena.parameters(), plan, w.size);
    WorkerSide side{.facts = facts, .arena = arena, .engine = w.engine, .plan = made};
    side.update = [this](Parameter& p, Rows rows, const StepContext& c) { update(p, rows, c); };
    if (s.momentum > 0) side.velocity = velocity;
    side.weight_decay = [decay = s.decay](const ParameterInfo&) { return decay; };
    side.watch = s.watch;
    sync = std::make_unique<RedSync>(std::move(side), method, s.sparse,
                                     s.density ? s.density : density_of(method, s.sparse, 1'000'000));
  }

  /// Makes n values those after a step of dense momentum SGD.
  LACONIC_UNWATCHED static void step_of(const Settings& s, const StepContext& c, float* value, float* u,
                                        const float* grad, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const float g = static_cast<float>(c.gradient_scale) * grad[i] + s.decay * value[i];
      u[i] = s.momentum * u[i] + g;
      value[i] -= static_cast<float>(c.lr) * (s.nesterov ? s.momentum * u[i] + g : u[i]);
    }
  }
  /// Makes n values their gradients; the first of them is value `first` of the arena.
  LACONIC_UNWATCHED static void make_gradients(float* values, std::size_t n, int rank, std::int64_t step,
                                               std::size_t first, float pull) {
    for (std::size_t i = 0; i < n; ++i) values[i] = gradient_at(rank, step, first + i) + pull * values[i];
  }

  /// Dense momentum SGD.
  void update(Parameter& p, Rows rows, const StepContext& c) {
    const std::int64_t row = p.info.elements / p.all_rows().count, begin = rows.first * row, count = rows.count * row;
    const Tensor values = p.value().view({-1}).range(begin, count), us = velocity.range(p.info.offset + begin, count);
    std::vector<float> value = values.to_vector(), u = us.to_vector();
    const std::vector<float> grad = p.grad().view({-1}).range(begin, count).to_vector();
    step_of(s, c, value.data(), u.data(), grad.data(), value.size());
    values.copy_from(Tensor::of({count}, std::span<const float>(value)));
    us.copy_from(Tensor::of({count}, std::span<const float>(u)));
    p.value().bump_version();
  }

  void steps(std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; ++step) {
      sync->begin_step({.step = step, .lr = s.lr});
      whole_forward(*sync, arena);
      std::vector<std::shared_ptr<Parameter>> as_ready = arena.parameters();
      if (s.reversed) std::reverse(as_ready.begin(), as_ready.end());
      for (const auto& p : as_ready) {
        std::vector<float> gradient = p->value().to_vector();
        make_gradients(gradient.data(), gradient.size(), worker.rank, step, static_cast<std::size_t>(p->info.offset),
                       s.pull);
        p->grad().copy_from(Tensor::of(p->info.shape, std::span<const float>(gradient)));
        const std::int64_t all = p->all_rows().count, chunk = p->chunk_rows() > 0 ? p->chunk_rows() : all;
        for (std::int64_t first = 0; first < all; first += chunk)
          sync->gradient_ready(*p, {first, std::min(chunk, all - first)});
      }
      sync->end_step();
    }
    sync->flush();
  }

  std::vector<float> values() const { return arena.values().to_vector(); }

  Settings s;
  Worker& worker;
  ParameterArena arena;
  Tensor velocity;
  TrainingFacts facts{};
  Plan made{};
  std::unique_ptr<RedSync> sync;
};
using Settings = Training::Settings;

/// Values of all ranks after some steps.
inline std::vector<std::vector<float>> train(int N, const Settings& s, int steps) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    Training t(w, s);
    t.steps(1, steps);
    values[static_cast<std::size_t>(w.rank)] = t.values();
  });
  return values;
}

/// A worker that has made steps 1 to `stop`, has saved, has begun anew from that, and has gone on to step `last`.
inline std::unique_ptr<Training> resumed(Worker& w, const Settings& s, int stop, int last) {
  RankState state;
  std::vector<float> values, velocity;
  {
    Training t(w, s);
    t.steps(1, stop);
    t.sync->save(state);
    values = t.values(), velocity = t.velocity.to_vector();
  }
  auto t = std::make_unique<Training>(w, s);
  t->arena.values().copy_from(Tensor::of({t->arena.size()}, values));
  t->velocity.copy_from(Tensor::of({t->arena.size()}, velocity));
  t->sync->load(state);
  t->steps(stop + 1, last);
  return t;
}

/// Dense momentum SGD with the mean (or sum) gradient, in double. `u` of large parameters and small ones may follow
/// other rules: with `large_momentum` false large ones have none, and their lr is multiplied.
inline std::vector<double> oracle(int N, const Settings& s, int steps, bool masked = false) {
  const ParameterArena arena(redsync_parameters());
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

inline void expect_near(const std::vector<float>& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

/// A configuration of a sparse method.
struct Case {
  const char* name;
  std::function<void(Settings&)> set;
};
inline const Case kCases[] = {
    {"exact", [](Settings& s) { s.sparse.selector = "exact"; }},
    {"radix, masked", [](Settings& s) { s.sparse.selector = "radix", s.sparse.masking = true; }},
    {"paper, packed", [](Settings& s) { s.sparse.selector = "paper", s.sparse.delta = true, s.sparse.masking = true; }},
    {"trimmed, rice",
     [](Settings& s) { s.sparse.selector = "trimmed", s.sparse.delta = true, s.seconds_per_byte = 1e-6; }},
    {"search", [](Settings& s) { s.sparse.selector = "search"; }},
    {"sampled, masked", [](Settings& s) { s.sparse.selector = "sampled", s.sparse.masking = true; }},
    {"auto", [](Settings& s) { s.sparse.selector = "auto", s.latency_seconds = 0, s.seconds_per_byte = 1; }},
    {"qrgc", [](Settings& s) { s.sparse.selector = "exact", s.sparse.quantised = true; }},
    {"qrgc, masked, search, packed",
     [](Settings& s) { s.sparse.selector = "search", s.sparse.quantised = s.sparse.masking = s.sparse.delta = true; }},
    {"masked, packed", [](Settings& s) { s.sparse.masking = s.sparse.delta = true; }},
    {"nesterov", [](Settings& s) { s.nesterov = true; }},
    {"dgc", [](Settings& s) { s.sync = "dgc", s.sparse.masking = true, s.sparse.warmup = Warmup{}; }},
    {"topk", [](Settings& s) { s.sync = "topk"; }},
    {"gradient-dropping", [](Settings& s) { s.sync = "gradient-dropping"; }},
    {"adacomp", [](Settings& s) { s.sync = "adacomp"; }},
    {"strom", [](Settings& s) { s.sync = "strom", s.sparse.threshold = 0.2; }},
    {"randomk", [](Settings& s) { s.sync = "randomk"; }},
    {"clipped", [](Settings& s) { s.clip = 5; }},
    {"adacomp, clipped", [](Settings& s) { s.sync = "adacomp", s.clip = 5; }},
};
inline Settings settings_of(const Case& c) {
  Settings s{.momentum = 0.9f};
  s.sparse.density = 0.02;
  c.set(s);
  return s;
}

}  // namespace laconic::dist
