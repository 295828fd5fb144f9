#include "compress/select/random_subset.h"
#include "dist/method/slim/slim.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/reference/slim_dp.h"
#include "tests/server_world.h"

namespace laconic::dist::server_world {
namespace {

Setting slim(int N, int K, const SlimSettings& rules, Overlap overlap = Overlap::forward, const char* codec = "none") {
  return {
      .workers = N, .servers = K, .sync = "slimdp", .rules = {.slim = rules}, .overlap = overlap,
      .legs = legs_of("slimdp", codec)};
}

/// Slim-DP in one thread, by the reference's lines; local training and codecs are written out here.
struct SlimOracle {
  SlimOracle(int N, const SlimSettings& rules, int steps, const char* codec = "none", PlanOptions options = {}) {
    const Legs legs = legs_of("slimdp", codec);
    method_of("slimdp", {.slim = rules})->shape(options, {});
    std::vector<std::unique_ptr<ParameterArena>> workers;
    std::vector<Momentum> momentum(static_cast<std::size_t>(N));
    for (int r = 0; r < N; ++r) workers.push_back(std::make_unique<ParameterArena>(some_parameters()));
    joint = workers[0]->values().to_vector();
    const Plan plan = make_plan(workers[0]->parameters(), options, N);
    const std::size_t layers = plan.buckets.size();
    std::vector<std::vector<float>> delta(static_cast<std::size_t>(N), std::vector<float>(joint.size()));
    std::vector<std::vector<reference::SlimChoice>> choices(static_cast<std::size_t>(N) + 1);  // the last: the server's
    for (auto& c : choices) c.resize(layers);
    for (int step = 1; step <= steps; ++step) {
      for (std::size_t r = 0; r < static_cast<std::size_t>(N); ++r) {
        const std::vector<float> before = workers[r]->values().to_vector();
        for (const auto& p : workers[r]->parameters()) {
          make_gradient(p->info, static_cast<int>(r), step, p->value().data<float>(), p->grad().data<float>());
          momentum[r](*p, p->all_rows(), {.step = step, .lr = lr_of(step)});
        }
        for (std::size_t i = 0; i < before.size(); ++i)
          delta[r][i] += workers[r]->values().data<float>()[i] - before[i];
      }
      if (step % rules.local_steps != 0) continue;
      const auto round = static_cast<std::uint64_t>(step / rules.local_steps - 1);
      for (std::size_t b = 0; b < layers; ++b) {
        const auto from = static_cast<std::size_t>(plan.buckets[b].offset);
        const auto n = static_cast<std::size_t>(plan.buckets[b].elements);
        const auto chosen = [&](std::size_t who, const std::vector<float>& by) {
          const std::uint32_t name = who == static_cast<std::size_t>(N) ? 0 : static_cast<std::uint32_t>(who) + 1;
          const compress::SlimKey key{4, round, static_cast<std::uint32_t>(b), name};
          choices[who][b].core_elements = core_elements(rules.chosen, n);
          choices[who][b].core_every = static_cast<std::uint64_t>(rules.chosen.core_every);
          return choices[who][b].choose(by.data() + from, n, round, [&](const reference::Places& core) {
            reference::Places explorer;
            compress::random_subset(n, explorer_elements(rules.chosen, n), slice(core), key.random(), explorer);
            return explorer;
          });
        };
        const auto read = [&](const compress::Codec* codec_of_leg, const compress::Key& key,
                              const reference::Places& keys, const std::vector<float>& of) {
          const std::vector<float> values = reference::gathered(of.data() + from, keys);
          return through(codec_of_leg, slice(std::as_const(values)), key, values.size() + 1);
        };
        for (std::size_t r = 0; r < static_cast<std::size_t>(N); ++r) {
          const reference::Places keys = chosen(r, delta[r]);
          const std::vector<float> came =
              read(legs.up.get(), legs.upward(b, step, static_cast<int>(r)).key, keys, delta[r]);
          reference::add_pushed(joint.data() + from, keys, came, static_cast<std::size_t>(N));
          if (rules.residual) reference::merge(delta[r].data() + from, keys, std::vector<float>(keys.size()));
          if (!rules.residual) std::fill_n(delta[r].begin() + static_cast<std::ptrdiff_t>(from), n, 0.0f);
        }
        const reference::Places keys = chosen(static_cast<std::size_t>(N), joint);
        const std::vector<float> came = read(legs.down.get(), legs.downward(b, step).key, keys, joint);
        for (const auto& worker : workers) reference::merge(worker->values().data<float>() + from, keys, came);
      }
    }
    for (const auto& worker : workers) values.push_back(worker->values().to_vector());
  }
  std::vector<float> joint;
  std::vector<std::vector<float>> values;
};

TEST(SlimSync, DoesWhatTheSettledTextSays) {
  const SlimSettings all_rules[] = {
      {.chosen = {.alpha = 0.3, .explore = 0.15, .core_every = 2}},
      {.chosen = {.alpha = 0.2, .explore = 0.1, .core_every = 3, .keys_sent = true}, .local_steps = 2},
      {.chosen = {.alpha = 0.3, .explore = 0}, .residual = true},
      {.chosen = {.alpha = 0.3, .explore = 0.3}, .whole_model = true},
      {.chosen = {.alpha = 1, .explore = 0.5, .core_every = 2}}};  // the largest travels in pieces, and in its turn
  for (const auto& row : combinations({std::size(all_rules), 3, 2, 2})) {
    const SlimSettings& rules = all_rules[row[0]];
    const int K = static_cast<int>(row[1]), N = row[2] == 0 ? 1 : 3;
    const Overlap overlap = row[3] == 0 ? Overlap::none : Overlap::forward;
    SCOPED_TRACE(concat(N, " workers, ", K, " servers, rules ", row[0], ", overlap ", to_string(overlap)));
    const SlimOracle oracle(N, rules, 7);
    const Result result = run(slim(N, K, rules, overlap), 7);
    EXPECT_EQ(result.joint.size(), static_cast<std::size_t>(N));
    for (const auto& joint : result.joint) EXPECT_TRUE(same_bits(joint, oracle.joint));
    for (std::size_t r = 0; r < result.values.size(); ++r)
      EXPECT_TRUE(same_bits(result.values[r], oracle.values[r])) << r;
    if (rules.chosen.alpha < 1) {
      EXPECT_GT(result.drift, 0);
    }
  }
}

using SlimSyncOnDevice = CudaTest;

TEST_F(SlimSyncOnDevice, GivesTheBitsOfTheCpu) {
  const SlimSettings all_rules[] = {{.chosen = {.alpha = 0.3, .explore = 0.15, .core_every = 2}},
                                    {.chosen = {.alpha = 0.3, .explore = 0.1, .keys_sent = true}, .residual = true}};
  for (const SlimSettings& rules : all_rules)
    for (const int K : {0, 1}) {
      Setting setting = slim(2, K, rules);
      const Result expected = run(setting, 4);
      setting.device = setting.server_device = kCuda;
      const Result result = run(setting, 4);
      for (std::size_t r = 0; r < expected.values.size(); ++r) {
        EXPECT_TRUE(same_bits(result.joint[r], expected.joint[r])) << K;
        EXPECT_TRUE(same_bits(result.values[r], expected.values[r])) << K;
      }
    }
}

TEST(SlimSync, LargeMatricesMayTravelInChunksOfRows) {
  const SlimSettings rules{.chosen = {.alpha = 0.3, .explore = 0.15, .core_every = 2}};
  const PlanOptions chunks{.chunk_bytes = 1024};
  const SlimOracle oracle(3, rules, 5, "none", chunks), whole(3, rules, 5);
  EXPECT_NE(oracle.joint, whole.joint);  // the largest of each chunk are not those of the matrix
  for (int K : {0, 1, 2}) {
    Setting setting = slim(3, K, rules, K == 0 ? Overlap::none : Overlap::forward);
    setting.plan = chunks;
    const Result result = run(setting, 5);
    for (const auto& joint : result.joint) EXPECT_TRUE(same_bits(joint, oracle.joint)) << K;
    for (std::size_t r = 0; r < result.values.size(); ++r)
      EXPECT_TRUE(same_bits(result.values[r], oracle.values[r])) << K << " " << r;
  }
}

TEST(SlimSync, HasSmallerChunksUnlessASizeIsAskedForOrAllAreChosenFrom) {
  PlanOptions by_default, asked, whole;
  set_chunk(asked, "4MiB");
  Rules model;
  model.slim.whole_model = true;
  method_of("slimdp", {})->shape(by_default, {});
  method_of("slimdp", {})->shape(asked, {});
  method_of("slimdp", model)->shape(whole, {});
  EXPECT_EQ(by_default.chunk_bytes, std::size_t{1} << 20);
  EXPECT_TRUE(by_default.chunk_convolutions);
  EXPECT_EQ(asked.chunk_bytes, std::size_t{4} << 20);
  EXPECT_EQ(whole.chunk_bytes, 0u);
}

TEST(SlimSync, CoreAndExplorerMayPassThroughACodec) {
  const SlimSettings rules{.chosen = {.alpha = 0.3, .explore = 0.15, .core_every = 2}};
  const char* const codecs[] = {"qsgd:8:512", "inceptionn:rel:2^0", "bf16"};
  for (const auto& row : combinations({std::size(codecs), 3})) {
    const char* const codec = codecs[row[0]];
    const int K = static_cast<int>(row[1]);
    const SlimOracle oracle(3, rules, 5, codec);
    const Result result = run(slim(3, K, rules, K == 0 ? Overlap::none : Overlap::forward, codec), 5);
    for (const auto& joint : result.joint) EXPECT_TRUE(same_bits(joint, oracle.joint)) << codec;
    for (std::size_t r = 0; r < result.values.size(); ++r)
      EXPECT_TRUE(same_bits(result.values[r], oracle.values[r])) << codec;
  }
}

TEST(SlimSync, SendingAllAfterEveryStepIsTheDenseServerToFloatAccuracy) {
  for (int N : {1, 3})
    for (const double explore : {0.0, 0.5}) {
      const Result dense = run({.workers = N, .servers = 1}, 6);
      const Result all = run(slim(N, 1, {.chosen = {.alpha = 1, .explore = explore}}), 6);
      EXPECT_LT(all.drift, 1e-6);
      for (std::size_t r = 0; r < dense.values.size(); ++r)
        for (std::size_t i = 0; i < dense.values[r].size(); ++i)
          ASSERT_NEAR(all.values[r][i], dense.values[r][i], 2e-5 * (1 + std::abs(dense.values[r][i])));
    }
}

TEST(SlimSync, TurnsChangeNoBit) {
  const SlimSettings rules{.chosen = {.alpha = 0.3, .explore = 0.15, .core_every = 2}};
  for (const auto& row : combinations({2, 3, 2})) {
    const int N = row[0] == 0 ? 1 : 3, K = static_cast<int>(row[1]);
    SCOPED_TRACE(concat(N, " workers, ", K, " servers"));
    Setting setting = slim(N, K, rules, row[2] == 0 ? Overlap::none : Overlap::forward);
    const Result at_once = run(setting, 5);
    setting.legs.without_turn = 16;
    const Result in_turns = run(setting, 5);
    for (std::size_t r = 0; r < at_once.values.size(); ++r)
      EXPECT_TRUE(same_bits(in_turns.values[r], at_once.values[r]));
    if (K == 0) continue;
    EXPECT_GT(in_turns.up, at_once.up) << "nobody asked";
    EXPECT_EQ(in_turns.down - at_once.down, in_turns.up - at_once.up);
  }
}

TEST(SlimSync, SendsWhatTheFormulaSays) {
  const SlimSettings rules{.chosen = {.alpha = 0.2, .explore = 0.1, .core_every = 5}};
  const Result ten = run(slim(2, 1, rules), 10);
  const ParameterArena arena(some_parameters());
  const double n = static_cast<double>(arena.elements()) * 4 * 2 * 10;  // bytes of two dense workers in ten steps
  EXPECT_LE(static_cast<double>(ten.up) / n, 0.2 + 0.1 / 5 + 0.01);
  EXPECT_LE(static_cast<double>(ten.down) / n, 0.2 + 0.1 / 5 + 0.01);
  EXPECT_GE(static_cast<double>(ten.up) / n, 0.2);
}

// Both ends lose what they know of the other's keys in the middle; they ask, and nothing changes.
TEST(SlimSync, AForgottenCoreIsSentAgainAndChangesNoBit) {
  const SlimSettings some{.chosen = {.alpha = 0.3, .explore = 0.1, .core_every = 100}};
  const SlimSettings all{.chosen = {.alpha = 1, .explore = 0.1, .core_every = 100}};  // the largest go in pieces
  for (const auto& row : combinations({2, 2})) {
    const int K = static_cast<int>(row[0]);
    const SlimSettings& rules = row[1] == 0 ? some : all;
    const Result undisturbed = run(slim(2, K, rules), 6);
    Setting setting = slim(2, K, rules);
    setting.watch = [](PsSync& sync, int rank, int step) {
      sync.flush();
      if (rank != 1 || step != 3) return;
      RankState state;
      sync.save(state);
      sync.load(state);  // forgets the server's core
    };
    const Result disturbed = run(setting, 6);
    for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(disturbed.values[r], undisturbed.values[r]));
    EXPECT_GT(disturbed.down, undisturbed.down);
  }
  ParameterServer* server = nullptr;
  Setting setting = slim(1, 0, some);
  const Result undisturbed = run(setting, 6);
  setting.prepare_server = [&](ParameterServer& s) { server = &s; };
  setting.watch = [&](PsSync& sync, int, int step) {
    sync.flush();
    if (step != 3) return;
    StateDict state;
    server->save(state);
    server->load(state);  // forgets the worker's core
  };
  EXPECT_TRUE(same_bits(run(setting, 6).values[0], undisturbed.values[0]));
}

TEST(SlimSync, RefusesRulesThatMakeNoSense) {
  EXPECT_THROW(run(slim(1, 0, {.chosen = {.alpha = 0.1, .explore = 0.2}}), 1), UsageError);
  EXPECT_THROW(run(slim(1, 0, {.local_steps = 0}), 1), UsageError);
}

}  // namespace
}  // namespace laconic::dist::server_world
