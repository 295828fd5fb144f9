#include <array>

#include "dist/method/ps/ps_sync.h"
#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/server_world.h"

namespace laconic::dist::server_world {
namespace {

/// The naive sum in rank order, of groups of G that were added up before, one update for all.
std::vector<float> oracle(int N, int steps, int G = 1) {
  ParameterArena arena(some_parameters());
  Momentum update;
  for (int step = 1; step <= steps; ++step)
    for (const auto& p : arena.parameters()) {
      const auto n = static_cast<std::size_t>(p->info.elements);
      std::vector<float> sum(n), group(n), part(n);
      for (int first = 0; first < N; first += G) {
        for (int r = first; r < std::min(N, first + G); ++r) {
          make_gradient(p->info, r, step, p->value().data<float>(), part.data());
          for (std::size_t i = 0; i < n; ++i) group[i] = r == first ? part[i] : group[i] + part[i];
        }
        for (std::size_t i = 0; i < n; ++i) sum[i] = first == 0 ? group[i] : sum[i] + group[i];
      }
      std::copy(sum.begin(), sum.end(), p->grad().data<float>());
      update(*p, p->all_rows(), {.step = step, .lr = lr_of(step), .gradient_scale = 1.0 / N});
    }
  return arena.values().to_vector();
}

PlanOptions plan_options(std::size_t bucket_bytes, std::size_t chunk_bytes) {
  PlanOptions options;
  options.bucket_bytes = bucket_bytes;
  options.chunk_bytes = chunk_bytes;
  return options;
}

TEST(PsSync, GivesTheBitsOfTheNaiveSumInRankOrderOnAllWorkersWhereverTheServersAre) {
  const int workers[] = {1, 2, 3, 5}, servers[] = {0, 1, 2, 11};
  const Overlap overlaps[] = {Overlap::none, Overlap::backward, Overlap::forward};
  for (const auto& row : combinations({std::size(workers), std::size(servers), std::size(overlaps)})) {
    const int N = workers[row[0]], K = servers[row[1]];
    SCOPED_TRACE(concat(N, " workers, ", K, " servers, overlap ", to_string(overlaps[row[2]])));
    const std::vector<float> expected = oracle(N, 4);
    const Setting setting{.workers = N, .servers = K, .overlap = overlaps[row[2]], .plan = plan_options(10'000, 7000)};
    for (const auto& v : run(setting, 4).values) EXPECT_TRUE(same_bits(v, expected));
  }
}

class PsSyncOnDevice : public CudaTest {};

TEST_F(PsSyncOnDevice, GivesTheBitsOfTheCpuWhereverTheServersAre) {
  const std::vector<float> expected = oracle(3, 3), grouped = oracle(4, 2, 2);
  for (const int K : {0, 2})
    for (const Device server : {kCpu, kCuda})
      for (const Overlap overlap : {Overlap::none, Overlap::forward}) {
        if (K == 0 && server == kCpu) continue;
        SCOPED_TRACE(concat(K, " servers on ", server, ", overlap ", to_string(overlap)));
        Setting setting{.workers = 3, .servers = K, .overlap = overlap, .plan = plan_options(10'000, 7000)};
        setting.device = kCuda, setting.server_device = server;
        for (const auto& v : run(setting, 3).values) EXPECT_TRUE(same_bits(v, expected));
        setting.workers = 4, setting.rules.local_aggregate = 2;
        for (const auto& v : run(setting, 2).values) EXPECT_TRUE(same_bits(v, grouped));
      }
}

TEST_F(PsSyncOnDevice, GivesTheBitsOfTheCpuOverALinkAndWithAClippedNorm) {
  for (int K : {0, 1}) {
    Setting setting = setting_of(2, K, "ps", {});
    setting.clip_norm = 100;
    const Result expected = run(setting, 2);
    setting.device = setting.server_device = kCuda;
    setting.link = LinkOptions{.all = LinkSpec::parse("1gbit,200us", "--link"), .of = {}};
    for (const auto& v : run(setting, 2).values) EXPECT_TRUE(same_bits(v, expected.values[0])) << K;
  }
}

TEST_F(PsSyncOnDevice, GivesTheBitsOfTheCpuThroughACodecWithFeedback) {
  for (const char* codec : {"fp16", "qsgd:8:512", "onebit"}) {
    SCOPED_TRACE(codec);
    expect_the_same_on_cuda(setting_of(2, 0, "ps", legs_of("ps", codec, true)), 2);
    expect_the_same_on_cuda(setting_of(2, 1, "ps", legs_of("ps", codec, false, 8)), 2);
  }
}

TEST(PsSync, AnyPlanGivesTheSameBits) {
  const std::vector<float> expected = oracle(3, 3);
  const std::size_t buckets[] = {0, 10'000, std::size_t{1} << 30}, chunks[] = {0, 7000, 200'000};
  for (const auto& row : combinations({std::size(buckets), std::size(chunks), 2})) {
    const std::size_t bucket = buckets[row[0]], chunk = chunks[row[1]];
    const int K = row[2] == 0 ? 0 : 2;
    for (const auto& v : run({.workers = 3, .servers = K, .plan = plan_options(bucket, chunk)}, 3).values)
      EXPECT_TRUE(same_bits(v, expected)) << bucket << " " << chunk << " " << K;
  }
}

TEST(PsSync, CutsFinerThanAllreduceUnlessASizeIsAskedFor) {
  PlanOptions by_default, asked;
  method_of("ps", {})->shape(by_default, {});
  EXPECT_EQ(by_default.bucket_bytes, std::size_t{64} << 10);
  EXPECT_EQ(by_default.chunk_bytes, std::size_t{64} << 10);
  EXPECT_TRUE(by_default.chunk_convolutions);
  set_fusion(asked, "lazy:1MiB"), set_chunk(asked, "4MiB");  // what an allreduce would take
  method_of("ps", {})->shape(asked, {});
  EXPECT_EQ(asked.bucket_bytes, std::size_t{1} << 20);
  EXPECT_EQ(asked.chunk_bytes, std::size_t{4} << 20);
}

TEST(PsSync, LargeBucketsComeInTurnsAndGiveTheSameBits) {
  const int workers[] = {1, 2, 4}, servers[] = {0, 1, 2};
  const double limits[] = {0, 0.5};
  for (const auto& row : combinations({std::size(workers), std::size(servers), 2, std::size(limits), 2})) {
    const int N = workers[row[0]], K = servers[row[1]];
    const double limit = limits[row[3]];
    if (N == 1 && K == 0 && limit > 0) continue;  // nobody is left to wait for the norm
    Setting setting = setting_of(N, K, "ps", legs_of("ps", row[4] == 0 ? "none" : "qsgd:8:512"));
    setting.overlap = row[2] == 0 ? Overlap::none : Overlap::forward;
    setting.clip_norm = limit;
    setting.plan = plan_options(0, 256);
    const Result at_once = run(setting, 5);
    setting.legs.without_turn = 16;
    const Result in_turns = run(setting, 5);
    SCOPED_TRACE(concat(N, " workers, ", K, " servers, norm ", limit));
    for (std::size_t r = 0; r < at_once.values.size(); ++r)
      EXPECT_TRUE(same_bits(in_turns.values[r], at_once.values[r]));
    if (K > 0) {
      EXPECT_GT(in_turns.up, at_once.up) << "nobody asked";
      EXPECT_EQ((in_turns.up - at_once.up) % (static_cast<std::uint64_t>(5 * N) * sizeof(Turn)), 0u)
          << "one for each bucket and step";
      EXPECT_EQ(in_turns.down - at_once.down, in_turns.up - at_once.up);
    }
  }
}

/// Waits for a place, then notes its number.
Task<> note_turn(Turns& turns, int priority, int number, std::vector<int>& order) {
  const Waiting::Wait place = turns.take(priority);
  co_await place;
  order.push_back(number);
}

TEST(Turns, TheMostUrgentThatWaitsIsNext) {
  Turns turns(2);
  Scheduler scheduler;
  std::vector<int> order;
  std::vector<Task<>> tasks;
  const int priorities[] = {1, 2, 5, 7, 7, 5};
  for (int i = 0; i < 6; ++i) tasks.push_back(note_turn(turns, priorities[i], i, order));
  for (Task<>& task : tasks) task.start(scheduler);
  scheduler.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1})) << "two places";
  for (int i = 0; i < 6; ++i) {
    turns.give_back();
    scheduler.run();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 3, 4, 2, 5}));
}

TEST(PsSync, InGroupsOneOfEachTalksToTheServersAndAllHoldTheBits) {
  for (const auto& row : combinations({3, 3, 2})) {
    const int N = std::array{2, 4, 5}[row[0]], K = static_cast<int>(row[1]);
    const Overlap overlap = row[2] == 0 ? Overlap::none : Overlap::forward;
    SCOPED_TRACE(concat(N, " workers, ", K, " servers, overlap ", to_string(overlap)));
    Setting setting = setting_of(N, K, "ps", {});
    setting.rules.local_aggregate = 2;
    setting.overlap = overlap;
    setting.plan = plan_options(10'000, 7000);
    const Result result = run(setting, 3);
    const std::vector<float> expected = oracle(N, 3, 2);  // of two addends there is one sum
    for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, expected));
    if (K > 0) {
      const Result alone = run(setting_of((N + 1) / 2, K, "ps", {}), 3);
      EXPECT_NEAR(static_cast<double>(result.up), static_cast<double>(alone.up), 0.01 * static_cast<double>(alone.up));
    }
  }
  const char *const allreduces[] = {"ring", "butterfly", "doubling"}, *const codecs[] = {"none", "qsgd:8:512",
                                                                                         "onebit"};
  for (const auto& row : combinations({3, 3})) {
    const char *const allreduce = allreduces[row[0]], *const codec = codecs[row[1]];
    Setting setting = setting_of(5, 1, "ps", legs_of("ps", codec));
    setting.rules.local_aggregate = 3;
    setting.plan.allreduce = allreduce;
    setting.clip_norm = 100;
    const Result first = run(setting, 3);
    for (int K : {0, 2}) {
      setting.servers = K;
      setting.overlap = Overlap::none;
      for (const auto& v : run(setting, 3).values) EXPECT_TRUE(same_bits(v, first.values[0])) << codec << " " << K;
    }
  }
}

TEST(PsSync, AnEmulatedLinkChangesNoBit) {
  const std::vector<float> expected = oracle(2, 2);
  const LinkOptions link{.all = LinkSpec::parse("1gbit,200us", "--link"), .of = {}};
  for (int K : {0, 1})
    for (const auto& v : run({.workers = 2, .servers = K, .link = link}, 2).values) EXPECT_TRUE(same_bits(v, expected));
}

TEST(PsSync, ACodecThatLosesNothingChangesNoBit) {
  const std::vector<float> expected = oracle(3, 2);
  for (const char* codec : {"identity", "snappy"})
    for (const bool feedback : {false, true})
      for (int K : {0, 1}) {
        const Result result = run(setting_of(3, K, "ps", legs_of("ps", codec, feedback)), 2);
        for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, expected)) << codec << " " << K;
        EXPECT_EQ(result.drift, 0);
      }
}

TEST(PsSync, AServerLimitsTheLengthOfTheWholeGradientWhoeverHoldsIt) {
  constexpr int kSteps = 4;
  constexpr double kLimit = 20;
  for (int N : {2, 3}) {
    ParameterArena arena(some_parameters());
    const Plan plan = make_plan(arena.parameters(), plan_options(10'000, 0), N);
    Momentum update;
    int clipped = 0;
    for (int step = 1; step <= kSteps; ++step) {
      double squares = 0;
      for (const Bucket& b : plan.buckets) {
        double of_bucket = 0;
        for (int i = b.first; i < b.first + b.count; ++i) {
          const Parameter& p = *arena.parameters()[static_cast<std::size_t>(i)];
          const auto n = static_cast<std::size_t>(p.info.elements);
          std::vector<float> part(n);
          float* const sum = p.grad().data<float>();
          for (int r = 0; r < N; ++r) {
            make_gradient(p.info, r, step, p.value().data<float>(), part.data());
            for (std::size_t k = 0; k < n; ++k) sum[k] = r == 0 ? part[k] : sum[k] + part[k];
          }
          of_bucket += raw::sum_of_squares(p.grad());
        }
        squares += of_bucket;
      }
      const double factor = clip_factor(kLimit, squares / N / N);
      clipped += factor < 1;
      for (const auto& p : arena.parameters())
        update(*p, p->all_rows(), {.step = step, .lr = lr_of(step), .gradient_scale = 1.0 / N * factor});
    }
    EXPECT_GT(clipped, 0);
    for (int K : {0, 1, 2, 11})
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        Setting setting = setting_of(N, K, "ps", {});
        setting.overlap = overlap;
        setting.plan = plan_options(10'000, 0);
        setting.clip_norm = kLimit;
        for (const auto& v : run(setting, kSteps).values)
          EXPECT_TRUE(same_bits(v, arena.values().to_vector())) << N << " " << K << " " << to_string(overlap);
        setting.sync = "layerdrop";
        setting.rules.layers.drop_ratio = 0.9;
        setting.rules.layers.threshold_every = 1;
        const Result result = run(setting, kSteps);  // many layers stay at home: nobody waits for what does not come
        for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, result.values[0]));
      }
  }
}

/// A dense server with codecs in one thread: what workers see, and what the server goes on with.
struct CodecOracle {
  CodecOracle(const Setting& setting, int steps) {
    ParameterArena arena(some_parameters());
    const Plan plan = make_plan(arena.parameters(), setting.plan, setting.workers);
    const auto size = static_cast<std::size_t>(arena.size());
    seen = arena.values().to_vector();
    owed.assign(static_cast<std::size_t>(setting.workers), std::vector<float>(size));
    sent.assign(size, 0.0);
    made.assign(size, 0.0);
    Momentum update;
    for (int step = 1; step <= steps; ++step) {
      const std::vector<float> before = seen;
      for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
        const auto from = static_cast<std::size_t>(plan.buckets[b].offset);
        const auto n = static_cast<std::size_t>(plan.buckets[b].elements);
        float scale = 0;
        for (int r = 0; r < setting.workers; ++r) {
          std::vector<float> gradient(size), &mine = owed[static_cast<std::size_t>(r)];
          for (const auto& p : arena.parameters())
            make_gradient(p->info, r, step, before.data() + p->info.offset, gradient.data() + p->info.offset);
          for (std::size_t i = from; i < from + n; ++i) mine[i] += gradient[i], made[i] += double{gradient[i]};
          if (setting.legs.up && setting.legs.up->shares_scale())
            scale = std::max(scale, setting.legs.up->scale_of(slice(mine).sub(from, n)));
        }
        std::vector<float> sum;
        for (int r = 0; r < setting.workers; ++r) {
          const Slice<float> mine = slice(owed[static_cast<std::size_t>(r)]).sub(from, n);
          const std::vector<float> came = push(setting.legs, b, step, r, mine, setting.legs.keeps_losses, scale);
          for (std::size_t i = 0; i < n; ++i) sent[from + i] += double{came[i]};
          if (r == 0) sum = came;
          for (std::size_t i = 0; r > 0 && i < n; ++i) sum[i] += came[i];
        }
        std::copy(sum.begin(), sum.end(), arena.gradients().data<float>() + from);
        for (int i = plan.buckets[b].first; i < plan.buckets[b].first + plan.buckets[b].count; ++i) {
          Parameter& p = *arena.parameters()[static_cast<std::size_t>(i)];
          update(p, rows_of(plan.buckets[b], p),
                 {.step = step, .lr = lr_of(step), .gradient_scale = 1.0 / setting.workers});
        }
        pull(setting.legs, b, step, arena.values().slice().sub(from, n), slice(seen).sub(from, n));
      }
      clear_padding_of(seen, arena);
    }
    values = arena.values().to_vector();
  }
  std::vector<float> values, seen;
  std::vector<std::vector<float>> owed;
  std::vector<double> sent, made;
};

struct CodecCase {
  const char* codec;
  bool feedback = false;
  int truncate_weights = 0;
};
const CodecCase kCodecCases[] = {
    {"qsgd:8:512"},     {"qsgd:4:100", true}, {"terngrad"},           {"terngrad", true},
    {"fp16"},           {"bf16", true},       {"inceptionn:2^-10"},   {"inceptionn:rel:2^0", true},
    {"trunc:22", true}, {"none", false, 16},  {"trunc:16", true, 12}, {"onebit"},
    {"signs:100"}};

TEST(PsSync, ThroughACodecAllWorkersSeeTheSameBitsWhichAreThoseOfOneThread) {
  for (const auto& row : combinations({std::size(kCodecCases), 2, 3, 2, 2})) {
    const CodecCase& c = kCodecCases[row[0]];
    const int N = row[1] == 0 ? 1 : 3, K = static_cast<int>(row[2]);
    SCOPED_TRACE(concat(c.codec, ", feedback ", c.feedback, ", ", N, " workers, ", K, " servers"));
    Setting setting = setting_of(N, K, "ps", legs_of("ps", c.codec, c.feedback, c.truncate_weights));
    setting.overlap = row[3] == 0 ? Overlap::none : Overlap::forward;
    setting.plan = plan_options(10'000, row[4] == 0 ? 0 : 300'000);
    const CodecOracle oracle(setting, 5);
    const Result result = run(setting, 5);
    for (const auto& v : result.values) EXPECT_TRUE(same_bits(v, oracle.seen));
    for (const auto& v : result.joint) EXPECT_TRUE(same_bits(v, oracle.values));
    EXPECT_EQ(result.drift > 0, setting.legs.rounds_down);
    EXPECT_LT(result.drift, 0.5);
  }
}

TEST(PsSync, WithFeedbackWhatWasSentAndWhatIsOwedIsWhatWasMade) {
  for (const char* codec : {"onebit", "signs:64", "terngrad", "qsgd:2:64", "inceptionn:2^-3", "trunc:24"}) {
    const CodecOracle oracle(setting_of(3, 1, "ps", legs_of("ps", codec, true)), 6);
    double scale = 0, owed = 0;
    for (const double m : oracle.made) scale = std::max(scale, std::abs(m));
    for (std::size_t i = 0; i < oracle.made.size(); ++i) {
      double total = oracle.sent[i];
      for (const auto& mine : oracle.owed) total += double{mine[i]}, owed = std::max(owed, std::abs(double{mine[i]}));
      ASSERT_NEAR(total, oracle.made[i], 1e-5 * scale) << codec << " " << i;
    }
    EXPECT_GT(owed, 0) << codec << ": nothing was lost, the test tests nothing";
  }
}

TEST(PsSync, WithFeedbackTheWorkersComeBackToTheServersValues) {
  const Legs legs = legs_of("ps", "qsgd:3:64", true);
  std::vector<float> fresh(1000), seen(1000);
  for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i] = std::sin(static_cast<float>(i));
  for (int step = 1; step <= 30; ++step) pull(legs, 0, step, slice(std::as_const(fresh)), slice(seen));
  for (std::size_t i = 0; i < fresh.size(); ++i) EXPECT_NEAR(seen[i], fresh[i], 1e-4);
}

TEST(Legs, WeightsTravelThroughWhatTheyBear) {
  EXPECT_TRUE(legs_of("ps", "qsgd:8:512").down && legs_of("layerdrop", "fp16").down && legs_of("slimdp", "bf16").down);
  for (const char* codec :
       {"none", "inceptionn:2^-10", "inceptionn-published:2^-8", "inceptionn:rel:2^0", "trunc:16", "terngrad"}) {
    EXPECT_FALSE(legs_of("ps", codec).down) << codec;
    EXPECT_TRUE(legs_of("ps", codec, false, 16).down && legs_of("ps", codec, false, 16).rounds_down) << codec;
  }
  EXPECT_TRUE(legs_of("ps", "terngrad", true).differences);
  EXPECT_TRUE(legs_of("ps", "onebit").differences && legs_of("ps", "onebit").keeps_losses);
  expect_error<UsageError>([] { legs_of("slimdp", "onebit"); }, {"slimdp", "`codec` onebit"});
  EXPECT_FALSE(legs_of("ps", "fp16", true, 16).differences) << "truncated weights are weights";
  EXPECT_FALSE(legs_of("ps", "snappy", true).keeps_losses);
  expect_error<UsageError>([] { legs_of("slimdp", "qsgd:8:512", true); }, {"slimdp", "`codec-feedback`"});
  expect_error<UsageError>([] { legs_of("ps", "none", false, 32); }, {"32 bits"});
}

TEST(PsSync, CountsEachLegAndNotWhatStaysOnARank) {
  const ParameterArena arena(some_parameters());
  auto bytes = static_cast<std::uint64_t>(arena.elements()) * 4;  // no fusion: no padding travels
  for (const auto& p : arena.parameters())
    if (Legs().takes_turn(p->info.elements)) bytes += sizeof(Turn);
  Setting setting{.workers = 3, .servers = 1, .plan = plan_options(0, 0)};
  Result result = run(setting, 2);
  EXPECT_EQ(result.up, 2 * 3 * bytes);
  EXPECT_EQ(result.down, 2 * 3 * bytes);
  setting.servers = 0;
  result = run(setting, 2);
  EXPECT_EQ(result.up, 2 * 2 * bytes);
  EXPECT_EQ(result.down, 2 * 2 * bytes);
  setting.workers = 1;
  result = run(setting, 2);
  EXPECT_EQ(result.up + result.down, 0u);
}

TEST(PsSync, AWorkerThatFallsSilentIsNamed) {
  for (int K : {0, 1}) {
    const auto stuck = [&] {
      run({.workers = 2,
           .servers = K,
           .timeout_seconds = 4,
           .watch =
               [](PsSync&, int rank, int step) {
                 if (rank == 1 && step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(6000));
               }},
          3);
    };
    expect_error<CommError>(stuck, {"Rank 1 computes"});
  }
}

TEST(PsSync, NothingIsAddedTwice) {
  const auto late = [&](ParameterServer& server) {  // it has seen step 7 already
    StateDict saved;
    server.save(saved);
    std::vector<std::int64_t> steps(server.shard().units().size(), 7);
    saved.set("steps", Tensor::of({static_cast<std::int64_t>(steps.size())}, std::span<const std::int64_t>(steps)));
    server.load(saved);
  };
  for (const char* sync : {"ps", "layerdrop"})
    expect_error<CommError>([&] { run({.workers = 2, .sync = sync, .prepare_server = late}, 1); },
                            {"would add gradients twice"});
}

TEST(ServersOf, EveryBucketHasOneAndTheyAreLoadedAlike) {
  const ParameterArena arena(some_parameters());
  const Plan plan = make_plan(arena.parameters(), plan_options(0, 20'000));
  for (int K : {1, 2, 3, 100}) {
    const std::vector<int> owner = servers_of(plan, K);
    ASSERT_EQ(owner.size(), plan.buckets.size());
    std::vector<std::int64_t> load(static_cast<std::size_t>(K));
    std::int64_t largest = 0;
    for (std::size_t b = 0; b < owner.size(); ++b) {
      load.at(static_cast<std::size_t>(owner[b])) += plan.buckets[b].elements;
      largest = std::max(largest, plan.buckets[b].elements);
    }
    const auto [low, high] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*high - *low, largest);
    std::size_t units = 0;
    for (int k = 0; k < K; ++k) units += Shard(plan, infos_of(arena.parameters()), owner, k).units().size();
    EXPECT_EQ(units, plan.buckets.size());
  }
  EXPECT_THROW(servers_of(plan, 0), UsageError);
}

TEST(Shard, DescriptionsOfParametersSurviveTheWire) {
  const ParameterArena arena(some_parameters());
  const auto back = parameters_from_json(to_json(infos_of(arena.parameters())));
  ASSERT_EQ(back.size(), arena.parameters().size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    const ParameterInfo &a = arena.parameters()[i]->info, &b = back[i]->info;
    EXPECT_EQ(a.name, b.name);
    EXPECT_TRUE(a.shape == b.shape);
    EXPECT_EQ(a.role, b.role);
    EXPECT_EQ(a.offset, b.offset);
    EXPECT_EQ(a.index, b.index);
  }
  for (const char* text :
       {"", "3", "[3]", "[{}]", R"([{"name": "a", "shape": [-1], "role": "conv", "output": false, "offset": 0}])",
        R"([{"name": "a", "shape": [1], "role": "none", "output": false, "offset": 0}])",
        R"([{"name": "a", "shape": [1,1,1,1,1,1,1,1], "role": "conv", "output": false, "offset": 0}])"})
    EXPECT_THROW(parameters_from_json(text), Error) << text;
}

}  // namespace
}  // namespace laconic::dist::server_world
