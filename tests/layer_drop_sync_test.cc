#include "dist/method/layer_drop/layer_drop.h"
#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/reference/layer_dropping.h"
#include "tests/server_world.h"

namespace laconic::dist::server_world {
namespace {

/// Layer dropping in one thread, by the reference's equations; ages, codecs and the optimiser are written out here.
struct LayerDropOracle {
  LayerDropOracle(const Setting& setting, int steps) {
    ParameterArena arena(some_parameters());
    PlanOptions options = setting.plan;
    method_of("layerdrop", setting.rules)->shape(options, {});
    const Plan plan = make_plan(arena.parameters(), options, setting.workers);
    const LayerDropRules& rules = setting.rules.layers;
    const auto norm = static_cast<reference::Norm>(rules.norm);
    const auto N = static_cast<std::size_t>(setting.workers);
    const std::size_t layers = plan.buckets.size();
    std::vector<std::vector<float>> accumulated(N, std::vector<float>(static_cast<std::size_t>(arena.size())));
    std::vector<std::vector<std::int64_t>> age(N, std::vector<std::int64_t>(layers));
    std::vector<double> threshold(N, -1);
    const Legs& legs = setting.legs;
    values = arena.values().to_vector();  // as workers see them
    std::int64_t found_at = 0;
    Momentum update;
    for (int step = 1; step <= steps; ++step) {
      const std::vector<float> before = values;
      std::vector<std::vector<double>> sizes(N, std::vector<double>(layers)), values_by = sizes;
      for (std::size_t b = 0; b < layers; ++b) {
        const Bucket& bucket = plan.buckets[b];
        const auto from = static_cast<std::size_t>(bucket.offset), n = static_cast<std::size_t>(bucket.elements);
        std::vector<std::vector<float>> received(N);  // empty: the placeholder
        bool any = false;
        for (std::size_t r = 0; r < N; ++r) {
          for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
            const Parameter& p = *arena.parameters()[static_cast<std::size_t>(i)];
            std::vector<float> g(static_cast<std::size_t>(p.info.elements));
            make_gradient(p.info, static_cast<int>(r), step, before.data() + p.info.offset, g.data());
            const auto at = static_cast<std::size_t>(p.info.offset);
            const std::size_t first = std::max(at, from),
                              end = std::min(at + g.size(), from + n);  // without other rows
            reference::accumulate(accumulated[r], first,
                                  {g.begin() + std::ptrdiff_t(first - at), g.begin() + std::ptrdiff_t(end - at)});
            sizes[r][b] += static_cast<double>(end - first);
          }
          const Slice<float> mine = slice(accumulated[r]).sub(from, n);
          const double value = values_by[r][b] =
              reference::representative(mine.data(), n, static_cast<std::size_t>(sizes[r][b]), norm);
          ++age[r][b];
          if (reference::drops(value, threshold[r]) && !(rules.max_age > 0 && age[r][b] >= rules.max_age)) continue;
          age[r][b] = 0;
          ++sent;
          received[r] = push(legs, b, step, static_cast<int>(r), mine, legs.keeps_losses);
          any = true;
          bytes_up += 4 * n;
        }
        bytes_up += N * sizeof(LayerHeader);
        bytes_down += N * (sizeof(LayerHeader) + (any ? 4 * n : 0));
        if (!any) continue;
        const std::vector<float> sum = reference::joined(received);
        std::copy(sum.begin(), sum.end(), arena.gradients().data<float>() + from);
        for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
          Parameter& p = *arena.parameters()[static_cast<std::size_t>(i)];
          update(p, rows_of(bucket, p), {.step = step, .lr = lr_of(step), .gradient_scale = 1.0 / setting.workers});
        }
        pull(legs, b, step, arena.values().slice().sub(from, n), slice(values).sub(from, n));
      }
      clear_padding_of(values, arena);
      const double then = lr_of(static_cast<int>(found_at));
      const bool due = found_at == 0 || std::abs(lr_of(step) - then) > 0.1 * then ||
                       (rules.threshold_every > 0 && step - found_at >= rules.threshold_every);
      if (due) {
        for (std::size_t r = 0; r < N; ++r)
          threshold[r] = reference::threshold_search(values_by[r], sizes[r], rules.drop_ratio);
        found_at = step;
      }
      kept.push_back(accumulated);
    }
    joint = arena.values().to_vector();
    buckets = plan.buckets;
  }
  std::vector<float> values, joint;
  std::vector<std::vector<std::vector<float>>> kept;  // by step, worker
  std::vector<Bucket> buckets;
  std::size_t sent = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;
};

LayerDropRules rules(double R, std::int64_t every = 2, std::int64_t max_age = 0,
                     compress::LayerNorm norm = compress::LayerNorm::mean) {
  return {.drop_ratio = R, .threshold_every = every, .norm = norm, .max_age = max_age};
}

TEST(LayerDropSync, WithARatioOfZeroGivesTheBitsOfTheDenseServer) {
  for (int N : {1, 3})
    for (int K : {0, 2}) {
      const Result dense = run({.workers = N, .servers = K}, 6);
      const Result dropping = run({.workers = N, .servers = K, .sync = "layerdrop", .rules = {.layers = rules(0)}}, 6);
      for (std::size_t r = 0; r < dense.values.size(); ++r)
        EXPECT_TRUE(same_bits(dense.values[r], dropping.values[r])) << N << " " << K;
    }
}

TEST(LayerDropSync, GivesTheBitsOfTheCpuOnADevice) {
  for (const int K : {0, 1})
    for (const int group : {1, 2}) {
      Setting setting = setting_of(3, K, "layerdrop", legs_of("layerdrop", K == 0 ? "none" : "qsgd:8:512", K == 1));
      setting.rules.layers = rules(0.5, 2, 3);
      setting.rules.layers.keeps_losses = K == 1;
      setting.rules.local_aggregate = group;
      SCOPED_TRACE(concat(K, " servers, groups of ", group));
      expect_the_same_on_cuda(setting, 5);
    }
}

TEST(LayerDropSync, DoesWhatTheSettledTextSays) {
  constexpr int kSteps = 9;
  const LayerDropRules all_rules[] = {rules(0.5),
                                      rules(0.97),
                                      rules(0.5, 0),
                                      rules(0.9999, 100, 3),
                                      rules(0.9, 1, 0, compress::LayerNorm::l1),
                                      rules(0.3, 3, 2, compress::LayerNorm::l2)};
  const char* const units[] = {"module", "parameter", "rows"};
  for (const auto& row : combinations({std::size(all_rules), 3, 2, 3, 2})) {
    const LayerDropRules& r = all_rules[row[0]];
    const int K = static_cast<int>(row[1]), N = row[2] == 0 ? 1 : 3;
    const std::string unit = units[row[3]];
    const Overlap overlap = row[4] == 0 ? Overlap::none : Overlap::forward;
    SCOPED_TRACE(
        concat("R = ", r.drop_ratio, ", ", N, " workers, ", K, " servers, ", unit, ", overlap ", to_string(overlap)));
    Setting setting{
        .workers = N, .servers = K, .sync = "layerdrop", .rules = {.layers = r, .unit = unit}, .overlap = overlap};
    if (unit == "rows") set_chunk(setting.plan, "256");
    const LayerDropOracle oracle(setting, kSteps);
    EXPECT_EQ(std::ranges::any_of(oracle.buckets, &Bucket::chunk), unit == "rows");
    const auto layers = static_cast<std::size_t>(N) * oracle.buckets.size() * kSteps;
    EXPECT_LT(oracle.sent, layers) << "nothing was dropped: the test tests nothing";
    EXPECT_GT(oracle.sent, layers / 20);
    std::atomic<int> wrong{0};
    // Conservation, bit for bit: what is kept at home is what was added up since it was last sent.
    setting.watch = [&](PsSync& sync, int rank, int step) {
      sync.flush();
      const auto& kept = oracle.kept[static_cast<std::size_t>(step - 1)][static_cast<std::size_t>(rank)];
      for (std::size_t b = 0; b < oracle.buckets.size(); ++b) {
        const Slice<const float> mine = sync.kept(b);
        for (std::size_t i = 0; i < static_cast<std::size_t>(oracle.buckets[b].elements); ++i)
          if ((mine.empty() ? 0.0f : mine[i]) != kept[static_cast<std::size_t>(oracle.buckets[b].offset) + i]) ++wrong;
      }
    };
    const Result result = run(setting, kSteps);
    EXPECT_EQ(wrong, 0);
    for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, oracle.values));
    for (const auto& v : result.joint) EXPECT_TRUE(same_bits(v, oracle.joint));
    if (K > 0) {
      EXPECT_EQ(result.up, oracle.bytes_up);
      EXPECT_EQ(result.down, oracle.bytes_down);
    }
  }
}

TEST(LayerDropSync, ThroughACodecItIsStillOneThreadsAndWithARatioOfZeroTheDenseServers) {
  const char* const codecs[] = {"qsgd:8:512", "terngrad", "inceptionn:2^-8", "onebit"};
  for (const auto& row : combinations({std::size(codecs), 2, 3})) {
    const char* const codec = codecs[row[0]];
    const bool feedback = row[1] == 1;
    const int K = static_cast<int>(row[2]);
    SCOPED_TRACE(concat(codec, ", feedback ", feedback, ", ", K, " servers"));
    const Legs legs = legs_of("layerdrop", codec, feedback);
    Setting setting = setting_of(3, K, "layerdrop", legs), dense = setting_of(3, K, "ps", legs);
    setting.rules.layers = rules(0.7);
    setting.overlap = K == 1 ? Overlap::none : Overlap::forward;
    const LayerDropOracle oracle(setting, 7);
    std::atomic<int> wrong{0};
    setting.watch = [&](PsSync& sync, int rank, int step) {  // what is lost is kept, bit for bit
      sync.flush();
      const auto& kept = oracle.kept[static_cast<std::size_t>(step - 1)][static_cast<std::size_t>(rank)];
      for (std::size_t b = 0; b < oracle.buckets.size(); ++b) {
        const Slice<const float> mine = sync.kept(b);
        for (std::size_t i = 0; i < static_cast<std::size_t>(oracle.buckets[b].elements); ++i)
          if ((mine.empty() ? 0.0f : mine[i]) != kept[static_cast<std::size_t>(oracle.buckets[b].offset) + i]) ++wrong;
      }
    };
    const Result result = run(setting, 7);
    EXPECT_EQ(wrong, 0);
    for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, oracle.values));
    for (const auto& v : result.joint) EXPECT_TRUE(same_bits(v, oracle.joint));

    dense.plan.fusion = PlanOptions::Fusion::module;
    dense.plan.chunk_bytes = 0;
    setting.rules.layers.drop_ratio = 0;
    setting.watch = {};
    if (legs.up->shares_scale()) continue;  // a layer that may stay at home is announced with nothing
    EXPECT_TRUE(same_bits(run(dense, 4).values[0], run(setting, 4).values[0]));
  }
}

TEST(LayerDropSync, InGroupsItIsTheGroupThatDecides) {
  const char* const codecs[] = {"none", "onebit"};
  const int workers[] = {2, 5};
  for (const auto& chosen : combinations({std::size(codecs), std::size(workers)})) {
    const char* const codec = codecs[chosen[0]];
    const int N = workers[chosen[1]];
    Setting setting = setting_of(N, 1, "layerdrop", legs_of("layerdrop", codec));
    setting.rules.local_aggregate = 2;
    setting.rules.layers = rules(0.7);
    const Result first = run(setting, 7);
    for (const auto& row : combinations({3, 2})) {
      const int K = setting.servers = static_cast<int>(row[0]);
      setting.overlap = row[1] == 0 ? Overlap::none : Overlap::forward;
      for (const auto& v : run(setting, 7).values) EXPECT_TRUE(same_bits(v, first.values[0])) << K << " " << N;
    }
    setting.rules.layers.drop_ratio = 0;
    Setting dense = setting_of(N, 1, "ps", legs_of("ps", codec));
    dense.rules.local_aggregate = 2;
    dense.plan.fusion = PlanOptions::Fusion::module;
    dense.plan.chunk_bytes = 0;
    const Result all = run(setting, 4);
    EXPECT_TRUE(same_bits(run(dense, 4).values[0], all.values[0]));
    EXPECT_LT(first.up, 7 * all.up / 4);
  }
}

TEST(LayerDropSync, ADroppedLayerCostsTwelveBytesEachWay) {
  // One layer of five is nearly everything; after the first step nothing else is sent.
  const Setting setting{.workers = 1, .servers = 1, .sync = "layerdrop", .rules = {.layers = rules(0.999999, 0)}};
  const Result one = run(setting, 1), three = run(setting, 3);
  EXPECT_EQ(one.up, one.down);
  EXPECT_LT(three.up - one.up, one.up);
}

TEST(LayerDropSync, AWorkerThatHoldsAnotherVersionIsNamed) {
  const auto ahead = [](ParameterServer& server) {
    StateDict saved;
    server.save(saved);
    std::vector<std::int64_t> versions(server.shard().units().size(), 1);
    saved.set("versions",
              Tensor::of({static_cast<std::int64_t>(versions.size())}, std::span<const std::int64_t>(versions)));
    server.load(saved);
  };
  for (int K : {0, 1})
    expect_error<CommError>([&] { run({.workers = 2, .servers = K, .sync = "layerdrop", .prepare_server = ahead}, 1); },
                            {"with version 0 of", "with version 1"});
}

TEST(LayerDropSync, RefusesARatioThatDropsAll) {
  EXPECT_THROW(run({.sync = "layerdrop", .rules = {.layers = rules(1)}}, 1), UsageError);
}

}  // namespace
}  // namespace laconic::dist::server_world
