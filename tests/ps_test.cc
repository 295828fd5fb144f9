#include "dist/sync/ps.h"

#include <cmath>

#include "core/raw.h"
#include "dist/server/control.h"
#include "dist/server/rounds.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

/// Parameters of all kinds of sizes; the largest takes several pieces.
std::vector<std::shared_ptr<Parameter>> some_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<Shape> shapes = {{3, 5}, {7}, {64, 100}, {1}, {600, 300}, {17}, {10, 33}, {10}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto p = std::make_shared<Parameter>(shapes[i], shapes[i].rank() == 1 ? Role::bias : Role::linear);
    p->info.name = concat("p", i);
    raw::fill(p->value(), static_cast<float>(i) + 1.0f);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

float gradient_at(int rank, std::int64_t step, std::int64_t i, float value) {
  return 0.1f * value +
         std::sin(static_cast<float>(i % 1000) + 10.0f * static_cast<float>(rank)) / static_cast<float>(step);
}

/// Momentum, whose velocity is whoever updates' own: by name, since a server's parameters lie elsewhere.
struct Momentum {
  std::map<std::string, std::vector<float>> velocity{};
  void operator()(Parameter& p, Rows rows, const StepContext& context) {
    std::vector<float>& v = velocity[p.info.name];
    v.resize(static_cast<std::size_t>(p.info.elements));
    const std::int64_t row = p.info.elements / p.all_rows().count;
    for (std::int64_t i = rows.first * row; i < (rows.first + rows.count) * row; ++i) {
      const float d = p.grad().data<float>()[i] * static_cast<float>(context.gradient_scale);
      v[static_cast<std::size_t>(i)] = 0.9f * v[static_cast<std::size_t>(i)] + d;
      p.value().data<float>()[i] -= static_cast<float>(context.lr) * v[static_cast<std::size_t>(i)];
    }
  }
};

void train(Strategy& sync, const ParameterArena& arena, int rank, int steps, StepStats* stats = nullptr) {
  const auto& parameters = arena.parameters();
  for (int step = 1; step <= steps; ++step) {
    sync.begin_step({.step = step, .lr = 0.1 / step});
    for (std::size_t i = parameters.size(); i-- > 0;) {
      Parameter& p = *parameters[i];
      const std::int64_t all = p.all_rows().count, chunk = p.chunk_rows() > 0 ? p.chunk_rows() : all;
      for (std::int64_t first = 0; first < all; first += chunk)
        sync.before_forward(p, {first, std::min(chunk, all - first)});
    }
    for (const auto& p : parameters) {
      for (std::int64_t i = 0; i < p->info.elements; ++i)
        p->grad().data<float>()[i] = gradient_at(rank, step, p->info.offset + i, p->value().data<float>()[i]);
      const std::int64_t all = p->all_rows().count, half = all / 2;
      if (half > 0) sync.gradient_ready(*p, {0, half});
      sync.gradient_ready(*p, {half, all - half});
    }
    StepStats mine;
    sync.end_step(stats == nullptr ? mine : *stats);
  }
  sync.flush();
}

/// The naive sum in rank order, one update for all.
std::vector<float> oracle(int N, int steps, bool mean = true) {
  ParameterArena arena(some_parameters());
  Momentum update;
  for (int step = 1; step <= steps; ++step)
    for (const auto& p : arena.parameters()) {
      std::vector<float> sum(static_cast<std::size_t>(p->info.elements));
      for (std::int64_t i = 0; i < p->info.elements; ++i) {
        const float value = p->value().data<float>()[i];
        float& s = sum[static_cast<std::size_t>(i)];
        s = gradient_at(0, step, p->info.offset + i, value);
        for (int r = 1; r < N; ++r) s += gradient_at(r, step, p->info.offset + i, value);
      }
      std::copy(sum.begin(), sum.end(), p->grad().data<float>());
      update(*p, p->all_rows(), {.step = step, .lr = 0.1 / step, .gradient_scale = mean ? 1.0 / N : 1.0});
    }
  return arena.values().to_vector();
}

struct Setting {
  int workers = 1, servers = 1;  // 0: colocated
  Overlap overlap = Overlap::forward;
  PlanOptions plan{};
  std::optional<LinkOptions> link{};
  const compress::Codec* codec = nullptr;
};

std::vector<int> ranks_from(int first, int count) {
  std::vector<int> ranks;
  for (int r = first; r < first + count; ++r) ranks.push_back(r);
  return ranks;
}

/// Values by worker after so many steps; sums of both legs' bytes in a step.
std::vector<std::vector<float>> run(const Setting& setting, int steps, std::uint64_t* up = nullptr,
                                    std::uint64_t* down = nullptr) {
  Watchdog watchdog(120);
  const int N = setting.workers, K = setting.servers;
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  std::atomic<std::uint64_t> all_up{0}, all_down{0};
  run_workers({.workers = N, .servers = K, .timeout_seconds = 60, .link = setting.link}, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    const Plan plan = make_plan(arena.parameters(), setting.plan, N);
    std::vector<int> owner = servers_of(plan, K > 0 ? K : N);
    const Legs legs{.up = setting.codec, .down = setting.codec, .seed = 5};
    std::optional<Shard> shard;
    std::optional<ParameterServer> server;
    const int serves = w.serves() ? w.rank - N : K == 0 ? w.rank : -1;
    if (serves >= 0) {
      shard.emplace(plan, infos_of(arena), owner, serves);
      for (const Shard::Unit& unit : shard->units()) {
        const Bucket& b = plan.buckets[unit.bucket];
        std::copy_n(arena.values().data<float>() + b.offset, b.elements, shard->values(unit).data());
      }
      server.emplace(*shard, Momentum{}, ParameterServer::Options{.workers = ranks_from(0, N), .legs = legs});
    }
    if (K > 0)
      for (int& o : owner) o += N;
    if (w.serves()) {
      Rounds rounds(w.engine, *server, w.engine.reserve_slots(static_cast<int>(plan.buckets.size())));
      ServerControl control(w.engine, N);
      while (true) {
        const Command command = control.next(false);
        if (command.kind == Command::Kind::end) break;
        rounds.begin({.step = command.step, .lr = command.lr, .gradient_scale = command.scale});
        rounds.wait();
      }
      all_down += server->bytes_down();
      return;
    }
    std::optional<ServerControl> control;
    PsSync sync(arena, w.engine, plan,
                {.overlap = setting.overlap,
                 .workers = N,
                 .server_rank = owner,
                 .own = server ? &*server : nullptr,
                 .legs = legs,
                 .begins = [&](const StepContext& context) {
                   if (w.rank == 0 && K > 0)
                     control->tell({.kind = Command::Kind::step,
                                    .step = context.step,
                                    .lr = context.lr,
                                    .scale = context.gradient_scale});
                 }});
    control.emplace(w.engine, N);
    StepStats stats, rest;
    train(sync, arena, w.rank, steps, &stats);
    if (w.rank == 0 && K > 0) control->tell({.kind = Command::Kind::end});
    values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
    sync.end_step(rest);  // what went during the last flush
    all_up += stats.bytes_up + rest.bytes_up, all_down += stats.bytes_down + rest.bytes_down;
  });
  if (up != nullptr) *up = all_up;
  if (down != nullptr) *down = all_down;
  return values;
}

PlanOptions plan_options(std::size_t bucket_bytes, std::size_t chunk_bytes) {
  PlanOptions options;
  options.bucket_bytes = bucket_bytes;
  options.chunk_bytes = chunk_bytes;
  return options;
}

TEST(PsSync, GivesTheBitsOfTheNaiveSumInRankOrderOnAllWorkersWhereverTheServersAre) {
  for (int N : {1, 2, 3, 5}) {
    const std::vector<float> expected = oracle(N, 4);
    for (int K : {0, 1, 2, 11})
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        SCOPED_TRACE(concat(N, " workers, ", K, " servers, overlap ", to_string(overlap)));
        for (const auto& v :
             run({.workers = N, .servers = K, .overlap = overlap, .plan = plan_options(10'000, 7000)}, 4))
          EXPECT_TRUE(same_bits(v, expected));
      }
  }
}

TEST(PsSync, AnyPlanGivesTheSameBits) {
  const std::vector<float> expected = oracle(3, 3);
  for (const std::size_t bucket : {std::size_t{0}, std::size_t{10'000}, std::size_t{1} << 30})
    for (const std::size_t chunk : {std::size_t{0}, std::size_t{7000}, std::size_t{300'000}})
      for (int K : {0, 2})
        for (const auto& v : run({.workers = 3, .servers = K, .plan = plan_options(bucket, chunk)}, 3))
          EXPECT_TRUE(same_bits(v, expected)) << bucket << " " << chunk << " " << K;
}

TEST(PsSync, AnEmulatedLinkChangesNoBit) {
  const std::vector<float> expected = oracle(2, 2);
  const LinkOptions link{.all = LinkSpec::parse("1gbit,200us", "--link"), .of = {}};
  for (int K : {0, 1})
    for (const auto& v : run({.workers = 2, .servers = K, .plan = plan_options(1 << 20, 0), .link = link}, 2))
      EXPECT_TRUE(same_bits(v, expected));
}

TEST(PsSync, CountsEachLegAndNotWhatStaysOnARank) {
  const ParameterArena arena(some_parameters());
  std::uint64_t up = 0, down = 0;
  run({.workers = 3, .servers = 1, .plan = plan_options(0, 0)}, 1, &up, &down);
  const auto bytes = static_cast<std::uint64_t>(arena.elements()) * 4;  // no fusion: no padding travels
  EXPECT_EQ(up, 3 * bytes);
  EXPECT_EQ(down, 3 * bytes);
  run({.workers = 3, .servers = 0, .plan = plan_options(0, 0)}, 1, &up, &down);
  EXPECT_EQ(up, 2 * bytes);
  EXPECT_EQ(down, 2 * bytes);
  run({.workers = 1, .servers = 0, .plan = plan_options(0, 0)}, 1, &up, &down);
  EXPECT_EQ(up, 0u);
}

}  // namespace
}  // namespace laconic::dist
