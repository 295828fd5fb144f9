#pragma once
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/raw.h"
#include "dist/method/layer_drop/layer_drop.h"
#include "dist/method/ps/method.h"
#include "dist/method/slim/slim.h"
#include "dist/server/control.h"
#include "tests/on_ranks.h"
#include "tests/test_devices.h"
#include "tests/unwatched.h"
#include "tests/whole_forward.h"

/// Training with parameter servers without a model: workers that make gradients up, and servers beside or among them.
namespace laconic::dist::server_world {

/// Parameters of all kinds of sizes; the largest takes several pieces. p0.weight and p0.bias are one module, ...
inline std::vector<std::shared_ptr<Parameter>> some_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<Shape> shapes = {{3, 5}, {7}, {64, 4, 5, 5}, {1}, {257, 256}, {17}, {10, 33}, {10}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto rank = shapes[i].rank();
    auto p = std::make_shared<Parameter>(shapes[i], rank == 1 ? Role::bias : rank == 4 ? Role::conv : Role::linear);
    p->info.name = concat("p", i / 2, i % 2 == 0 ? ".weight" : ".bias");
    raw::fill(p->value(), static_cast<float>(i) + 1.0f);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

/// Any function that tells ranks, steps, places and values apart; the parameters differ in size by powers of two, and
/// by how they change from step to step.
LACONIC_UNWATCHED inline float gradient_at(int rank, std::int64_t step, std::int64_t i, float value) {
  const float grows = 1.0f + static_cast<float>((i / 7 + step * 3 + rank) % 5);
  return 0.1f * value +
         grows * std::sin(static_cast<float>(i % 1000) + 10.0f * static_cast<float>(rank)) / static_cast<float>(step);
}

/// The gradient of all of a parameter of the workers' arena. They may lie in the same place as the values.
LACONIC_UNWATCHED inline void make_gradient(const ParameterInfo& info, int rank, std::int64_t step, const float* value,
                                            float* gradient) {
  for (std::int64_t i = 0; i < info.elements; ++i)
    gradient[i] = gradient_at(rank, step, info.offset + i, value[i]) / static_cast<float>(1 + info.index);
}

/// A step of n values, with the decay of weights.
LACONIC_UNWATCHED inline void step_with_momentum(float* values, float* velocity, const float* gradient, std::size_t n,
                                                 float scale, float lr) {
  for (std::size_t i = 0; i < n; ++i) {
    const float d = gradient[i] * scale + 0.01f * values[i];
    velocity[i] = 0.9f * velocity[i] + d;
    values[i] -= lr * velocity[i];
  }
}

/// Momentum and weight decay, whose velocity is its own: by name, since a server's parameters lie elsewhere.
struct Momentum {
  std::map<std::string, std::vector<float>> velocity{};
  void operator()(Parameter& p, Rows rows, const StepContext& context) {
    std::vector<float>& v = velocity[p.info.name];
    v.resize(static_cast<std::size_t>(p.info.elements));
    const std::int64_t row = p.info.elements / p.all_rows().count;
    // No other rows are touched: they may be under way.
    const Tensor here = p.value().rows(rows.first, rows.count);
    std::vector<float> values = here.to_vector();
    const std::vector<float> gradient = p.grad().rows(rows.first, rows.count).to_vector();
    step_with_momentum(values.data(), v.data() + rows.first * row, gradient.data(), values.size(),
                       static_cast<float>(context.gradient_scale), static_cast<float>(context.lr));
    here.copy_from(Tensor::of(here.shape(), std::span<const float>(values)));
  }
};

/// What arrives of x, piece by piece as a leg cuts it; x itself without a codec.
inline std::vector<float> through(const compress::Codec* codec, Slice<const float> x, compress::Key key,
                                  std::size_t piece = kPieceElements) {
  std::vector<float> came(x.begin(), x.end());
  for (std::size_t from = 0; codec != nullptr && from < x.size(); from += piece, ++key.hop) {
    compress::Bytes payload;
    codec->encode(x.sub(from, std::min(piece, x.size() - from)), key, payload);
    codec->decode(payload.slice(), slice(came).sub(from, std::min(piece, x.size() - from)));
  }
  return came;
}

/// What a bucket's values become among the workers, who see so far what stands in `seen`.
inline void pull(const Legs& legs, std::size_t bucket, std::int64_t step, Slice<const float> fresh, Slice<float> seen) {
  std::vector<float> sent(fresh.begin(), fresh.end());
  for (std::size_t i = 0; legs.differences && i < sent.size(); ++i) sent[i] = fresh[i] - seen[i];
  const std::vector<float> came = through(legs.down.get(), slice(std::as_const(sent)), legs.downward(bucket, step).key);
  for (std::size_t i = 0; i < came.size(); ++i) seen[i] = legs.differences ? seen[i] + came[i] : came[i];
}

/// Padding is zero again among workers, whatever a codec has made of it.
inline void clear_padding_of(std::vector<float>& seen, const ParameterArena& arena) {
  const Tensor state = arena.make_state();
  std::copy(seen.begin(), seen.end(), state.data<float>());
  clear_padding(state, arena.parameters());
  seen = state.to_vector();
}

/// What the server reads of a bucket's gradients, or of what was owed and is added up with them: then that is left.
inline std::vector<float> push(const Legs& legs, std::size_t bucket, std::int64_t step, int rank, Slice<float> owed,
                               bool keeps_losses, float scale = 0) {
  compress::Key key = legs.upward(bucket, step, rank).key;
  key.scale = scale;
  const std::vector<float> came = through(legs.up.get(), owed, key);
  for (std::size_t i = 0; i < came.size(); ++i) owed[i] = keeps_losses ? owed[i] - came[i] : 0.0f;
  return came;
}

/// What can be set of methods with servers; each takes what it knows.
struct Rules {
  LayerDropRules layers{};
  std::string unit = "module";
  SlimSettings slim{};
  int local_aggregate = 1, truncate_weights = 0;
};
inline std::unique_ptr<ServedMethod> method_of(const std::string& sync, const Rules& rules) {
  const LayerDropRules& layers = rules.layers;
  const SlimSettings& slim = rules.slim;
  std::vector<std::pair<std::string, std::string>> settings{{"truncate-weights", number_text(rules.truncate_weights)}};
  const auto set = [&](const char* name, const std::string& value) { settings.emplace_back(name, value); };
  if (sync != "slimdp") set("local-aggregate", number_text(rules.local_aggregate));
  if (sync == "layerdrop") {
    set("drop-ratio", number_text(layers.drop_ratio)), set("threshold-every", number_text(layers.threshold_every));
    set("layerdrop-norm", to_string(layers.norm)), set("layerdrop-max-age", number_text(layers.max_age));
    set("layerdrop-unit", rules.unit);
  }
  if (sync == "slimdp") {
    set("alpha", number_text(slim.chosen.alpha)), set("explore", number_text(slim.chosen.explore));
    set("core-every", number_text(slim.chosen.core_every)), set("local-steps", number_text(slim.local_steps));
    set("slim-scope", slim.whole_model ? "model" : "layer");
    set("explorer-keys", slim.chosen.keys_sent ? "sent" : "drawn");
    if (slim.residual) set("slim-residual", "");
  }
  std::unique_ptr<ServedMethod> made(dynamic_cast<ServedMethod*>(method(sync, settings).release()));
  made->check({});
  return made;
}

/// Both ways through this codec.
inline Legs legs_of(const char* sync, const char* codec, bool feedback = false, int truncate_weights = 0) {
  return method_of(sync, {.truncate_weights = truncate_weights})->legs(codec, feedback, 4);
}

/// What --clip norm multiplies gradients by.
inline double clip_factor(double limit, double squares) { return std::min(1.0, limit / (std::sqrt(squares) + 1e-6)); }

struct Setting {
  int workers = 1, servers = 1;  ///< servers 0: colocated
  std::string sync = "ps";
  Rules rules{};
  Overlap overlap = Overlap::forward;
  PlanOptions plan{};
  std::optional<LinkOptions> link{};
  Device device = kCpu;         ///< of workers
  Device server_device = kCpu;  ///< of servers that are ranks of their own
  Legs legs{};
  double clip_norm = 0;  ///< limit of the length of the gradient; 0: none
  double timeout_seconds = 60;
  /// After each step's backward, on a worker.
  std::function<void(PsSync&, int rank, int step)> watch{};
  std::function<void(ParameterServer&)> prepare_server{};
};

/// Not by designated initialisers: g++ 12 then takes members for uninitialized.
inline Setting setting_of(int workers, int servers, const char* sync, Legs legs) {
  Setting setting;
  setting.workers = workers, setting.servers = servers;
  setting.sync = sync;
  setting.legs = std::move(legs);
  return setting;
}

struct Result {
  std::vector<std::vector<float>> values;  ///< by worker, in arena order with padding
  std::vector<std::vector<float>> joint;   ///< the model that would be evaluated, as some worker sees it
  double drift = 0;
  std::uint64_t up = 0, down = 0;  ///< bytes of all steps and ranks
};

inline double lr_of(int step) { return step < 4 ? 0.1 - 0.002 * step : 0.05; }

inline void train(const Setting& setting, PsSync& sync, const ParameterArena& arena, int rank, int steps,
                  Result& result) {
  const auto& parameters = arena.parameters();
  for (int step = 1; step <= steps; ++step) {
    sync.begin_step({.step = step, .lr = lr_of(step)});
    whole_forward(sync, arena);
    for (const auto& p : parameters) {
      std::vector<float> gradient = p->value().to_vector();
      make_gradient(p->info, rank, step, gradient.data(), gradient.data());
      p->grad().copy_from(Tensor::of(p->info.shape, std::span<const float>(gradient)));
      const std::int64_t all = p->all_rows().count, half = all / 2;
      if (half > 0) sync.gradient_ready(*p, {0, half});
      sync.gradient_ready(*p, {half, all - half});
    }
    sync.end_step();
    if (setting.watch) setting.watch(sync, rank, step);
  }
  sync.flush();
  result.up = sync.costs().bytes_up, result.down = sync.costs().bytes_down;
}

inline std::vector<int> ranks_from(int first, int count) {
  std::vector<int> ranks;
  for (int r = first; r < first + count; ++r) ranks.push_back(r);
  return ranks;
}

inline Result run(const Setting& setting, int steps) {
  Watchdog watchdog(600);
  const int N = setting.workers, K = setting.servers;
  Result result;
  result.values.resize(static_cast<std::size_t>(N));
  std::mutex mutex;
  const std::unique_ptr<ServedMethod> method = method_of(setting.sync, setting.rules);
  const TrainingFacts facts{.workers = N, .servers = K, .overlap = setting.overlap};
  run_workers({.workers = N, .servers = K, .timeout_seconds = setting.timeout_seconds, .link = setting.link},
              [&](Worker& w) {
                const ParameterArena arena(some_parameters(), setting.device);
                PlanOptions plan_options = setting.plan;
                method->shape(plan_options, facts);
                const Plan plan = make_plan(arena.parameters(), plan_options, N);
                std::vector<int> owner = servers_of(plan, K > 0 ? K : N);
                std::optional<ServerControl> control;
                if (K > 0) control.emplace(w.engine, N);
                std::optional<Shard> shard;
                std::unique_ptr<ParameterServer> server;
                const int serves = w.serves() ? w.rank - N : K == 0 ? w.rank : -1;
                if (serves >= 0) {
                  shard.emplace(plan, infos_of(arena.parameters()), owner, serves,
                                K == 0 ? setting.device : setting.server_device);
                  for (const Shard::Unit& unit : shard->units()) {
                    const Bucket& b = plan.buckets[unit.bucket];
                    const Slice<float> to = shard->values(unit);
                    copy_bytes(to.data(), to.device(), arena.values().data<float>() + b.offset, setting.device,
                               to.size_bytes());
                  }
                  ParameterServer::Options options{.workers = leaders_of(N, setting.rules.local_aggregate),
                                                   .legs = setting.legs};
                  if (setting.clip_norm > 0)
                    options.norm = std::make_shared<JointNorm>(
                        JointNorm::Options{.servers = K > 0 ? ranks_from(N, K) : ranks_from(0, N),
                                           .buckets = plan.buckets.size(),
                                           .own = shard->units().size(),
                                           .limit = [&](double scale, double squares) {
                                             return scale * clip_factor(setting.clip_norm, scale * scale * squares);
                                           }});
                  server = method->make_server(
                      {.facts = facts, .codec = plan.codec, .shard = *shard, .update = Momentum{}}, std::move(options));
                  if (setting.prepare_server) setting.prepare_server(*server);
                }
                if (K > 0)
                  for (int& o : owner) o += N;
                if (w.serves()) {
                  Rounds rounds(w.engine, *server, static_cast<int>(plan.buckets.size()));
                  while (true) {
                    const Command command = control->next();
                    if (command.kind == Command::Kind::end) break;
                    if (command.kind == Command::Kind::show)
                      rounds.show();
                    else
                      rounds.begin({.step = command.step, .lr = command.lr, .gradient_scale = command.scale});
                    rounds.wait();
                  }
                  std::lock_guard lock(mutex);
                  result.down += server->bytes_down();
                  return;
                }
                WorkerSide side{.facts = facts, .arena = arena, .engine = w.engine, .plan = plan, .update = Momentum{}};
                side.server_rank = owner;
                side.own = server.get();
                if (control) side.control = &*control;
                const std::unique_ptr<PsSync> sync = method->make_worker(
                    std::move(side),
                    {.name = method->name(), .group = setting.rules.local_aggregate, .legs = setting.legs});
                Result mine;
                train(setting, *sync, arena, w.rank, steps, mine);
                std::vector<float> values = arena.values().to_vector();
                sync->show_joint_model();
                std::vector<float> joint = arena.values().to_vector();
                sync->hide_joint_model();
                EXPECT_TRUE(same_bits(values, arena.values().to_vector()));
                if (control) control->tell({.kind = Command::Kind::end});
                std::lock_guard lock(mutex);
                result.drift += sync->drift().value_or(0) / N;
                result.joint.push_back(std::move(joint));
                result.values[static_cast<std::size_t>(w.rank)] = std::move(values);
                result.up += mine.up, result.down += mine.down;
              });
  return result;
}

/// On a CUDA device the bits of the CPU, and the same bytes: workers and servers there, beside each other and in ranks
/// of their own.
inline void expect_the_same_on_cuda(Setting setting, int steps) {
  NEEDS_CUDA();
  const Result expected = run(setting, steps);
  setting.device = setting.server_device = kCuda;
  const Result result = run(setting, steps);
  for (std::size_t r = 0; r < expected.values.size(); ++r) {
    EXPECT_TRUE(same_bits(result.values[r], expected.values[r])) << "worker " << r;
    EXPECT_TRUE(same_bits(result.joint[r], expected.joint[r])) << "worker " << r;
  }
  EXPECT_EQ(result.up, expected.up);
  EXPECT_EQ(result.down, expected.down);
}

}  // namespace laconic::dist::server_world
