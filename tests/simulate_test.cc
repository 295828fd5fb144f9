// A training step in virtual time against arithmetic, `laconic simulate` and `laconic explain`.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/bench/layers.h"
#include "compress/slim.h"
#include "dist/collective/reduce.h"
#include "dist/predict/simulation.h"
#include "dist/server/shard.h"
#include "tests/error_of.h"
#include "tests/program.h"

namespace laconic {
namespace {

using namespace std::chrono_literals;

dist::SimulatedTraining lenet(dist::Overlap overlap, int workers = 2, const char* allreduce = "ring") {
  const GhostModel ghost("lenet", 0);
  dist::PlanOptions options;
  dist::set_allreduce(options, allreduce);
  return {.parameters = dist::infos_of(ghost.arena.parameters()),
          .times = layer_times_at(1e10, "lenet", 0, 32),
          .plan = dist::make_plan(ghost.arena.parameters(), options, workers),
          .facts = {.workers = workers, .overlap = overlap}};
}

using MethodSetting = std::vector<std::pair<std::string, std::string>>;

dist::SimulatedTraining of_method(const std::string& model, const std::string& sync, int workers,
                                  dist::Overlap overlap = dist::Overlap::forward, const MethodSetting& settings = {}) {
  const GhostModel ghost(model, 0);
  dist::SimulatedTraining training{.parameters = dist::infos_of(ghost.arena.parameters()),
                                   .times = layer_times_at(1e10, model, 0, 32),
                                   .method = dist::method(sync, settings),
                                   .facts = {.workers = workers, .momentum = 0.9, .overlap = overlap}};
  dist::PlanOptions options;
  training.method->shape(options, training.facts);
  training.plan = dist::make_plan(ghost.arena.parameters(), options, workers);
  return training;
}

const MethodSetting kSparseRounds{{"every", "4"}, {"density", "0.03"}};
const MethodSetting kPairRounds{{"every", "4"}, {"pairs", ""}, {"outer", "momentum"}};

const dist::VirtualNetwork kPair{.ranks = 2, .links = {.all = {.bits_per_second = 100'000'000}}};

TEST(Simulate, ComputingAloneIsTheSumOfItsParts) {
  const dist::SimulatedTraining training = lenet(dist::Overlap::forward, 1);
  double ms = 0;
  for (const auto& layer : training.times.layers) {
    ms += layer.forward_ms + layer.backward_ms;
    for (const auto& p : layer.parameters) ms += p.update_ms;
  }
  const dist::SimulatedStep step = simulate_step(training, {});
  EXPECT_NEAR(step.seconds, 1e-3 * ms, 1e-6);
  EXPECT_NEAR(step.compute_seconds, 1e-3 * ms, 1e-9);
  EXPECT_EQ(step.exposed_seconds, 0);
  EXPECT_EQ(step.bytes_sent, 0);
}

/// Without overlap a step is computing, and after it the link's time; with it, never less than either.
TEST(Simulate, OverlapHidesWhatItCan) {
  const dist::SimulatedStep none = simulate_step(lenet(dist::Overlap::none), kPair);
  const double wire = none.bytes_sent * 8 / 1e8;
  EXPECT_GT(none.bytes_sent, 4 * 61'000);
  EXPECT_NEAR(none.seconds, none.compute_seconds + wire, 0.02 * wire);
  double before = none.seconds;
  for (const auto overlap : {dist::Overlap::backward, dist::Overlap::forward}) {
    const dist::SimulatedStep step = simulate_step(lenet(overlap), kPair);
    EXPECT_LE(step.seconds, before) << dist::to_string(overlap);
    EXPECT_GE(step.seconds, std::max(wire, step.compute_seconds));
    EXPECT_NEAR(step.seconds, step.compute_seconds + step.exposed_seconds, 1e-6);
    before = step.seconds;
  }
}

TEST(Simulate, OneRankStandsForAllWhereTheyAreAlike) {
  dist::VirtualNetwork network{.ranks = 4, .links = {.all = {.bits_per_second = 100'000'000, .latency = 100us}}};
  std::vector<dist::SimulatedTraining> trainings{of_method("hdc", "redsync", 4), of_method("hdc", "randomk", 4),
                                                 of_method("hdc", "onebit-adam", 4), of_method("hdc", "signsgd", 4),
                                                 of_method("hdc", "rounds", 4, dist::Overlap::forward, kSparseRounds)};
  for (const char* allreduce : {"ring", "butterfly", "doubling"})
    trainings.push_back(lenet(dist::Overlap::forward, 4, allreduce));
  for (const dist::SimulatedTraining& training : trainings) {
    ASSERT_TRUE(is_alike(training, network));
    network.mirrored = false;
    const dist::SimulatedStep whole = simulate_step(training, network);
    network.mirrored = true;
    const dist::SimulatedStep mirrored = simulate_step(training, network);
    const std::string what =
        training.plan.buckets[0].allreduce + " " + (training.method ? training.method->name() : "");
    EXPECT_NEAR(whole.seconds, mirrored.seconds, 1e-3 * whole.seconds) << what;
    EXPECT_NEAR(whole.bytes_sent, mirrored.bytes_sent, 1e-3 * whole.bytes_sent) << what;
  }
  network.ranks = 3;
  EXPECT_FALSE(is_alike(lenet(dist::Overlap::forward, 3, "doubling"), network)) << "doubling among three";
  network.ranks = 4;
  EXPECT_FALSE(is_alike(lenet(dist::Overlap::forward, 4, "tree:2"), network));
  EXPECT_FALSE(is_alike(of_method("hdc", "rounds", 4, dist::Overlap::forward, kPairRounds), network))
      << "one may be left over";
}

/// All methods, each either simulated or refused; what they send is what they expect to send, where they know.
TEST(Simulate, EveryMethodSendsWhatItExpectsOrIsRefused) {
  const GhostModel ghost("hdc", 0);
  std::vector<std::pair<std::string, MethodSetting>> ways{{"rounds", kSparseRounds}, {"rounds", kPairRounds}};
  for (const std::string& name : dist::methods().names()) ways.emplace_back(name, MethodSetting());
  for (const auto& [name, settings] : ways) {
    const dist::SimulatedTraining training = of_method("hdc", name, 2, dist::Overlap::forward, settings);
    if (!training.method->traits().on_ghosts) {
      expect_error<UsageError>([&] { simulate_step(training, kPair); }, {"`sync` " + name, "a simulation has none"});
      continue;
    }
    const auto expected = training.method->expected_bytes(training.plan, ghost.arena.parameters(), training.facts);
    const dist::SimulatedStep step = simulate_step(training, kPair);
    if (name == "layerdrop") {  // see below
      EXPECT_FALSE(expected);
    } else {
      EXPECT_NEAR(step.bytes_sent, expected.value(), 0.02 * *expected + 64) << name;
    }
    EXPECT_GE(step.seconds, step.compute_seconds) << name;
  }
}

/// Each layer travels in its share of the steps, both ways, with a header in all.
TEST(Simulate, LayersTakeTurnsByTheDropRatio) {
  const dist::SimulatedTraining all =
      of_method("resnet20", "layerdrop", 2, dist::Overlap::forward, {{"drop-ratio", "0"}});
  const double headers = 2 * 12 * static_cast<double>(all.plan.buckets.size()) / 2;  // half of them to oneself
  const double dense = simulate_step(all, kPair).bytes_sent - headers;
  EXPECT_NEAR(dense, 4.0 * static_cast<double>(GhostModel("resnet20", 0).arena.elements()), 0.05 * dense);
  for (const char* ratio : {"0.5", "0.6", "0.75", "0.97"}) {
    const auto training = of_method("resnet20", "layerdrop", 2, dist::Overlap::forward, {{"drop-ratio", ratio}});
    const double share = 1 - std::stod(ratio);
    EXPECT_NEAR(simulate_step(training, kPair).bytes_sent - headers, share * dense, 0.02 * share * dense) << ratio;
  }
  // In one step about as much as in another.
  dist::SimulatedTraining half = of_method("resnet20", "layerdrop", 2, dist::Overlap::none, {{"drop-ratio", "0.5"}});
  half.facts.servers = 1;
  const dist::VirtualNetwork three{.ranks = 3, .links = kPair.links};
  EXPECT_NEAR(simulate_step(half, three).bytes_sent, dense / 2, 0.05 * dense);
  const auto aged = of_method("resnet20", "layerdrop", 2, dist::Overlap::forward,
                              {{"drop-ratio", "0.97"}, {"layerdrop-max-age", "2"}});
  EXPECT_NEAR(simulate_step(aged, kPair).bytes_sent - headers, 0.5 * dense, 0.05 * dense)
      << "at least every other step";
}

/// Where shares are known each layer is sent as often as they say, and workers that choose apart make more come.
TEST(Simulate, LayersTravelAsOftenAsMeasured) {
  dist::SimulatedTraining training = of_method("lenet", "layerdrop", 4);
  training.facts.servers = 1;
  const dist::VirtualNetwork network{.ranks = 5, .links = {.all = {.bits_per_second = 10'000'000'000}}};
  const auto step = [&](double sent, double came) {
    for (const dist::Bucket& b : training.plan.buckets) training.facts.layer_shares[b.name] = {sent, came};
    return simulate_step(training, network);
  };
  const double n = 4.0 * static_cast<double>(GhostModel("lenet", 0).arena.elements());
  for (const double share : {0.05, 0.25, 1.0})
    EXPECT_NEAR(step(share, share).bytes_sent, share * n, 0.03 * share * n + 200);
  EXPECT_LT(step(0, 0).bytes_sent, 200) << "headers";
  training.facts.overlap = dist::Overlap::none;
  EXPECT_GT(step(0.05, 0.2).exposed_seconds, 1.5 * step(0.05, 0.05).exposed_seconds);
}

/// A log of layer dropping tells how often layers travel.
TEST(Simulate, SharesOfLayersComeFromALog) {
  const TempFolder folder;
  const std::string log = folder / "log.jsonl";
  const Result training = run(
      "mnist --data synthetic:256,16 --workers 2 --threads 1 --batch 8 --steps 16 --sync layerdrop --drop-ratio 0.5 "
      "--ledger --quiet --log " +
      log);
  ASSERT_EQ(training.exit_code, 0) << training.err;
  const std::string common =
      "laconic simulate --workers 2 --compute gflops:10 --sum-rate 8 --json --layer-shares " + log;
  const Result r = run(common + " --model lenet --sync layerdrop");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_GT(nlohmann::json::parse(r.out)["rows"][0]["bytes_sent"], 0.2 * 4 * 61'706);
  const Result other = run(common + " --model hdc --sync layerdrop"), unused = run(common + " --model lenet --sync ps");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(has(other.err, "the log tells nothing of the layer ")) << other.err;
  EXPECT_EQ(unused.exit_code, 2);
  EXPECT_TRUE(has(unused.err, "--sync ps has no use for it (--layer-shares)")) << unused.err;
  const std::string line = R"({"run":{"model":"lenet"}})";
  folder.write("none", std::vector<std::uint8_t>(line.begin(), line.end()));
  const Result none = run("laconic simulate --model lenet --sync layerdrop --layer-shares " + (folder / "none"));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(has(none.err, "does not tell how often layers were sent")) << none.err;
}

/// A ghost's message has the length of a real one, in rounds with keys and in rounds without.
TEST(Simulate, SlimMessagesHaveTheirLength) {
  const std::int64_t n = 5001;
  const compress::SlimRules rules{.alpha = 0.3, .explore = 0.1, .core_every = 2};
  for (const bool keys_sent : {false, true}) {
    compress::SlimFormat format{.rules = rules, .n = static_cast<std::size_t>(n)};
    format.rules.keys_sent = keys_sent;
    const Tensor real = Tensor::zeros({n}), ghost = Tensor::empty({n}, DType::f32, kGhost);
    compress::SlimSet real_set, ghost_set;
    for (std::uint64_t round = 0; round < 4; ++round) {
      for (std::int64_t i = 0; i < n; ++i)
        real.slice()[static_cast<std::size_t>(i)] = static_cast<float>((i * (round + 7)) % 101);
      const compress::SlimKey key{.round = round};
      real_set.choose(format.rules, real.slice(), key), ghost_set.choose(format.rules, ghost.slice(), key);
      EXPECT_EQ(real_set.core_is_new(), ghost_set.core_is_new()) << round;
      std::vector<float> values;
      real_set.gather(real.slice(), values);
      compress::Bytes message, of_ghost(kGhost);
      const bool with_keys = real_set.core_is_new();
      compress::write_slim(format, real_set, with_keys, 0, slice(std::as_const(values)), {}, message);
      compress::write_slim(format, ghost_set, with_keys, 0, ghost.slice().first(format.count()), {}, of_ghost);
      EXPECT_EQ(message.size(), of_ghost.size()) << round << keys_sent;
      real_set.core_was_sent(), ghost_set.core_was_sent();
    }
  }
}

/// A ring over hosts is as fast as its slowest hop, so hosts joined by the same link change nothing, and with a slow
/// one between them the ring is that of slow cables. Groups send less between hosts.
TEST(Simulate, HostsHaveAPortOfTheirOwn) {
  const dist::LinkSpec fast{.bits_per_second = 1'000'000'000}, slow{.bits_per_second = 100'000'000};
  const auto seconds = [](const char* allreduce, const dist::LinkOptions& links) {
    dist::SimulatedTraining training = lenet(dist::Overlap::none, 4, allreduce);
    return simulate_step(training, {.ranks = 4, .links = links}).exposed_seconds;
  };
  const dist::LinkOptions cables{.all = fast}, slow_cables{.all = slow};
  const double ring = seconds("ring", cables), slow_ring = seconds("ring", slow_cables);
  EXPECT_NEAR(seconds("ring", {.all = fast, .per_host = 2, .between = fast}), ring, 1e-6);
  EXPECT_NEAR(seconds("ring", {.all = slow, .per_host = 4, .between = fast}), slow_ring, 1e-6) << "one host alone";
  EXPECT_NEAR(seconds("ring", {.all = fast, .per_host = 1, .between = slow}), slow_ring, 1e-6) << "nothing is inside";
  EXPECT_NEAR(seconds("ring", {.all = fast, .per_host = 2, .between = slow}), slow_ring, 0.02 * slow_ring);
  // By hand, n bytes. Four ranks in a ring send 3/2 n each over the slow port. In groups of two they swap halves and
  // sum (n inside), one of each swaps all with the other (n between), and passes it on (n inside).
  const double n = 4 * 61'706.0, wire = 8 * n / 1e8;
  EXPECT_NEAR(slow_ring, 1.5 * wire, 0.03 * wire);
  const double groups = seconds("hierarchical:2", {.all = fast, .per_host = 2, .between = slow});
  EXPECT_GT(groups, wire);
  EXPECT_LT(groups, 1.25 * wire) << "and a tenth of that for each n inside";
  // All four ranks of two hosts send to the other host at once: two share each port.
  const auto across = [](const dist::LinkOptions& links) {
    double longest = 0;
    dist::run_in_virtual_time({.ranks = 4, .links = links}, [&](dist::VirtualEngine& engine) {
      const auto swap = [](dist::Communicator& comm) -> dist::Task<> {
        std::vector<std::byte> out(100'000), in(out.size());
        const int peer = (comm.rank() + 2) % 4;
        co_await dist::exchange(comm, peer, slice(out), peer, slice(in));
      };
      engine.run("across", swap, kCpu);
      longest = std::max(longest, engine.now());
    });
    return longest;
  };
  EXPECT_NEAR(across({.all = fast, .per_host = 2, .between = slow}), 2 * 8e5 / 1e8, 1e-4);
  EXPECT_NEAR(across({.all = slow}), 8e5 / 1e8, 1e-4);
}

/// In INCEPTIONN's card the codec takes no core's time, and the link is busy with packets or with an engine.
TEST(Simulate, ACodecInTheCardTakesTheCardsTime) {
  dist::SimulatedTraining training = lenet(dist::Overlap::none, 2);
  training.plan.codec = "inceptionn:2^-10";
  dist::VirtualNetwork network = kPair;
  network.work.per_encoded_element = network.work.per_decoded_element = 1e-6;
  network.payloads.bits_per_value = 4;
  const double n = 61'706;  // in a ring of two a rank sends n values in all
  const dist::SimulatedStep on_core = simulate_step(training, network);
  EXPECT_NEAR(on_core.bytes_sent, n / 2, 0.01 * n);
  EXPECT_GT(on_core.seconds - on_core.compute_seconds, n * 1e-6) << "encoding alone";
  const double rate = 1e8 / 8;
  network.payloads.card_bytes_per_second = rate;
  const dist::SimulatedStep in_card = simulate_step(training, network);
  EXPECT_NEAR(in_card.bytes_sent, 1448.0 / 1538 * (n / 2 + 90 * n / 362), 0.02 * n);
  EXPECT_NEAR(in_card.exposed_seconds, in_card.bytes_sent / rate, 0.01 * in_card.seconds);
  network.work.per_added_byte = 1e-8;  // half of the values come to be added
  EXPECT_NEAR(simulate_step(training, network).exposed_seconds - in_card.exposed_seconds, 1e-8 * 2 * n,
              0.3 * 1e-8 * 2 * n);
  // A link of 100 Gb/s waits for the engines: 8 floats a cycle.
  network.links.all.bits_per_second = 100'000'000'000;
  network.payloads.card_bytes_per_second = 100e9 / 8, network.work = {};
  EXPECT_NEAR(simulate_step(training, network).exposed_seconds, n / 8 / 100e6, 0.1 * n / 8 / 100e6);
}

TEST(Simulate, AServerReceivesFromAllAndSendsToAll) {
  dist::SimulatedTraining training = of_method("hdc", "ps", 3);
  training.facts.servers = 1;
  dist::VirtualNetwork network{.ranks = 4, .links = {.all = {.bits_per_second = 100'000'000}}};
  const double bytes = 4.0 * static_cast<double>(GhostModel("hdc", 0).arena.elements());
  const dist::SimulatedStep step = simulate_step(training, network);
  EXPECT_NEAR(step.bytes_sent, bytes, 0.01 * bytes) << "up";
  const double wire = 8 * 3 * bytes / 1e8;  // through the server's port, which takes both ways at once
  EXPECT_GE(step.seconds, wire);
  EXPECT_LE(step.seconds, 2 * wire + step.compute_seconds);
  network.ranks = 3;
  expect_error<UsageError>([&] { simulate_step(training, network); }, {"3 workers and 1 servers", "3 ranks"});
}

/// Work on ghosts takes the time of whoever does it.
TEST(Simulate, WorkTakesWhatItCosts) {
  dist::SimulatedTraining training = of_method("hdc", "redsync", 1);
  double sparse = 0, chosen = 0;
  for (const dist::Bucket& b : training.plan.buckets)
    if (b.sparse()) {
      const std::int64_t n = training.parameters[static_cast<std::size_t>(b.first)].elements;
      sparse += static_cast<double>(n), chosen += static_cast<double>(dist::elements_to_send(n, 0.001));
    }
  ASSERT_GT(sparse, 1e5);
  const double before = simulate_step(training, {}).seconds;
  const auto longer = [&](dist::WorkCosts work) { return simulate_step(training, {.work = work}).seconds - before; };
  EXPECT_NEAR(longer({.per_gathered_element = 1e-8}), 1e-8 * sparse, 1e-6);
  EXPECT_NEAR(longer({.per_selected_element = 1e-8}), 1e-8 * sparse, 1e-6);
  EXPECT_NEAR(longer({.per_scattered_element = 1e-5}), 1e-5 * chosen, 1e-6);
  // Without overlap nothing hides a server's update.
  training = of_method("hdc", "ps", 1, dist::Overlap::none);
  const double served = simulate_step(training, {}).seconds, elements = GhostModel("hdc", 0).arena.elements();
  EXPECT_NEAR(simulate_step(training, {.work = {.per_updated_element = 1e-8}}).seconds - served, 1e-8 * elements,
              1e-2 * 1e-8 * elements);
}

TEST(Simulate, StragglersAreDrawnAndHoldUpTheOthers) {
  dist::SimulatedTraining training = of_method("lenet", "allreduce", 1);
  const double alone = simulate_step(training, {}).seconds;
  training.straggling = 0.2;
  const double one = simulate_step(training, {}).seconds;
  EXPECT_EQ(simulate_step(training, {}).seconds, one) << "two runs draw alike";
  EXPECT_GT(one, 1.1 * alone);
  EXPECT_LT(one, 1.3 * alone);
  training = of_method("lenet", "allreduce", 8);
  dist::VirtualNetwork network{.ranks = 8, .links = {.all = {.bits_per_second = 100'000'000'000}}};
  const double together = simulate_step(training, network).seconds;
  training.straggling = 0.2;
  EXPECT_FALSE(is_alike(training, network));
  EXPECT_GT(simulate_step(training, network).seconds / together, 1.4) << "the largest of eight delays is 2.7 means";
}

TEST(Simulate, TimesOfAnotherModelAreRefused) {
  dist::SimulatedTraining training = lenet(dist::Overlap::forward);
  training.times = layer_times_at(1e10, "hdc", 0, 32);
  expect_error<DataError>([&] { simulate_step(training, kPair); }, {"which the model does not have"});
}

TEST(Simulate, TimesThatAreNoneAreRefused) {
  for (const double ms : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    dist::SimulatedTraining training = lenet(dist::Overlap::forward);
    training.times.layers[0].backward_ms = ms;
    expect_error<DataError>([&] { simulate_step(training, kPair); }, {"takes", "(`compute`)"});
  }
}

TEST(Simulate, TheToolPrintsATableOrOneObject) {
  const std::string command = "laconic simulate --model lenet --compute gflops:10 --workers 1..6 --link 100mbit,1ms";
  const Result table = run(command);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("Simulated: nothing was sent."), std::string::npos);
  const Result object = run(command + " --json");
  const auto json = nlohmann::json::parse(object.out);
  std::vector<int> workers;
  for (const auto& row : json["rows"]) workers.push_back(row["workers"]);
  EXPECT_EQ(workers, (std::vector<int>{1, 2, 4, 6}));
  EXPECT_NEAR(json["rows"][0]["efficiency"], 1, 1e-3);
  EXPECT_LT(json["rows"][3]["efficiency"], 0.9);
}

TEST(Simulate, AnySettingCanBeSwept) {
  const auto rows = [](const std::string& options) {
    const Result r =
        run("laconic simulate --model lenet --compute gflops:10 --sum-rate 8 --workers 4 --json " + options);
    EXPECT_EQ(r.exit_code, 0) << options << ": " << r.err;
    return r.exit_code == 0 ? nlohmann::json::parse(r.out)["rows"] : nlohmann::json::array();
  };
  const auto batches = rows("--sweep batch=8..20");
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[2]["batch"], 20);
  EXPECT_NEAR(batches[1]["compute_ms"], 2 * batches[0]["compute_ms"].get<double>(), 0.05);
  const auto rates = rows("--sweep rate=10mbit,20mbit --overlap none");
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0]["rate"], "10mbit");
  EXPECT_GT(rates[0]["exposed_ms"], 1.8 * rates[1]["exposed_ms"].get<double>());
  const auto links = rows("'--sweep' 'link=10mbit,1ms;20mbit,1ms' --overlap none");
  ASSERT_EQ(links.size(), 2u);
  EXPECT_NEAR(links[0]["step_ms"], rates[0]["step_ms"].get<double>() + 6 * 0.9, 3) << "six hops of a longer link";
  const auto workers = rows("--sweep workers=2,3");
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[1]["workers"], 3);
  // A point is what the setting alone gives.
  const auto one = rows("--rate 20mbit --overlap none");
  EXPECT_EQ(one[0]["step_ms"], rates[1]["step_ms"]);
  const auto densities = rows("--sync redsync --dense-below 4KiB --sweep density=0.001,0.01,0.1");
  ASSERT_EQ(densities.size(), 3u);
  EXPECT_LT(densities[0]["bytes_sent"], densities[2]["bytes_sent"]);
  EXPECT_EQ(rows("--sweep allreduce=ring,butterfly").size(), 2u);
}

TEST(Simulate, SetsStandInOneTable) {
  const Result result = run("laconic simulate --model lenet --compute gflops:10 --workers 1..8"
                            " --vs 'all: --sync allreduce' --vs 'few & large: --sync redsync --density 0.01'"
                            " --vs 'a server: --sync ps --servers 1' --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[4]["set"], "few & large");
  EXPECT_LT(rows[7]["bytes_sent"], rows[3]["bytes_sent"]);
}

/// A training with a measured plan leaves a log that a simulation goes on from, and that can be explained.
TEST(Simulate, ALogIsReplayedAndExplained) {
  const TempFolder folder;
  const std::string log = folder / "log.jsonl";
  const Result training =
      run("mnist --data synthetic:1024,64 --workers 2 --threads 1 --batch 16 --steps 30 --eval-every 0 "
          "--link 50mbit,1ms --plan auto --quiet --log " +
          log);
  ASSERT_EQ(training.exit_code, 0) << training.err;

  const std::string replay = "laconic simulate --replay " + log;
  const auto row = [&](const std::string& options) {
    const Result r = run(replay + options + " --json");
    EXPECT_EQ(r.exit_code, 0) << options << ": " << r.err;
    return r.exit_code == 0 ? nlohmann::json::parse(r.out)["rows"].back() : nlohmann::json();
  };
  const auto own = row("");
  EXPECT_EQ(own["workers"], 2);
  EXPECT_NEAR(own["bytes_sent"], 4 * 61'706, 4'000) << "LeNet, halves both ways";
  EXPECT_GT(own["step_ms"], 8e3 * 4 * 61'706 / 50e6) << "the wire alone";
  EXPECT_EQ(row(" --workers 2..8")["workers"], 8);
  // A busy machine computes for longer than the link takes: this computing takes some milliseconds everywhere.
  const std::string computing = " --model lenet --compute gflops:10 --link ";
  EXPECT_GT(row(computing + "5mbit,1ms")["step_ms"], 3 * row(computing + "50mbit,1ms")["step_ms"].get<double>());
  EXPECT_LT(row(" --codec bf16")["bytes_sent"], 0.55 * own["bytes_sent"].get<double>());
  EXPECT_GT(row(" --model hdc --compute gflops:10")["bytes_sent"], 10 * own["bytes_sent"].get<double>());
  const Result refused = run(replay + " --batch 8");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(has(refused.err, "computing is that of the log (--batch)")) << refused.err;

  const auto first = nlohmann::json::parse(file_text(log).substr(0, file_text(log).find('\n')))["run"];
  EXPECT_EQ(first["overlap"], "forward");
  EXPECT_EQ(first["exchange_every"], 1);
  EXPECT_EQ(first["accumulate"], 1);
  const Result explained = run("laconic explain " + log);
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  for (const char* part : {"lenet, 20 steps counted, the first 10 left out.", "A step takes ", "The plan predicted "})
    EXPECT_TRUE(has(explained.out, part)) << part << "\n" << explained.out;
  // A busy machine may slow the steps down, but not the measurements before them.
  EXPECT_TRUE(has(explained.out, "a link of twice the rate") || has(explained.out, "no advice is given"))
      << explained.out;
}

/// LeNet's trainings of tests/explained: 2 and 4 workers on 1 and 2 cores (AMD EPYC with AVX-512), over links of many
/// rates, each with a line `truth`: the median step as it is, with --allow 16bit, with --allow sparse:0.01, and over a
/// link of twice the rate.
TEST(Simulate, AdviceIsWhatWasMeasuredWithinTenPoints) {
  int advised = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LACONIC_SOURCE "/tests/explained")) {
    SCOPED_TRACE(entry.path().filename().string());
    nlohmann::json truth;
    std::istringstream log(file_text(entry.path()));
    for (std::string line; std::getline(log, line);)
      if (const auto j = nlohmann::json::parse(line); j.contains("truth")) truth = j["truth"];
    const Result r = run("laconic explain " + entry.path().string());
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto ms_behind = [&](const std::string& words) {
      const std::size_t at = r.out.find(words);
      EXPECT_NE(at, std::string::npos) << words << "\n" << r.out;
      return at == std::string::npos ? 0 : std::atof(r.out.c_str() + at + words.size());
    };
    const double measured = truth["own_ms"];
    if (has(r.out, "no advice is given")) {
      const double simulated = ms_behind("The simulation of this run takes ");
      EXPECT_GT(std::abs(simulated / measured - 1), 0.14) << r.out;
      EXPECT_FALSE(has(r.out, "a link of twice the rate")) << r.out;
      continue;
    }
    ++advised;
    const double simulated = ms_behind("as it is, simulated");
    EXPECT_NEAR(simulated / measured, 1, 0.16) << r.out;
    for (const auto& [words, figure] : {std::pair{"--allow 16bit", "16bit_ms"},
                                        {"--allow sparse:0.01", "sparse_ms"},
                                        {"a link of twice the rate", "rate_ms"}})
      EXPECT_NEAR(100 * ms_behind(words) / simulated, 100 * truth[figure].get<double>() / measured, 10) << words << "\n"
                                                                                                        << r.out;
  }
  EXPECT_GE(advised, 6);
}

TEST(Simulate, WhatIsNoLogIsOneSentence) {
  const TempFolder folder;
  folder.write("none", {'h', 'a', 'l', 'l', 'o', '\n'});
  folder.write("empty", {});
  const std::string run_line = R"({"run":{"model":"lenet"}})",
                    step_line = R"({"step":1,"step_ms":2.5,"forward_ms":1,"exposed_ms":0.5})";
  const auto file = [&](const std::string& name, const std::string& text) {
    folder.write(name, std::vector<std::uint8_t>(text.begin(), text.end()));
    return folder / name;
  };
  for (const auto& [path, sentence] : {std::pair{folder / "nowhere", std::string("could not be read")},
                                       {folder / "none", ":1 is no line of a log"},
                                       {folder / "empty", "says of no run"},
                                       {file("no steps", run_line + "\n"), "has no steps"},
                                       {file("no times", run_line + "\n{\"step\":1}\n"), "has no times of steps"}}) {
    const Result r = run("laconic explain '" + path + "'");
    EXPECT_EQ(r.exit_code, 1) << path;
    EXPECT_TRUE(has(r.err, sentence)) << path << ": " << r.err;
  }
  // The last line may have been cut off; a plan is not asked for.
  const Result r = run("laconic explain '" + file("cut", run_line + "\n" + step_line + "\n{\"step\":2,\"st") + "'");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "lenet, 1 step counted.\nA step takes 2.5 ms")) << r.out;
  EXPECT_TRUE(has(r.out, "waiting for gradients")) << r.out;
  EXPECT_TRUE(has(r.out, "with --plan auto it would tell")) << r.out;
  EXPECT_TRUE(
      has(run("laconic simulate --replay '" + (folder / "no steps") + "'").err, "has no measured plan (--replay)"));
  // A plan without times of layers is none that could be gone on from.
  const std::string plan = R"({"plan":{"measured":{},"plan":{}}})";
  const Result no_layers = run("laconic explain '" + file("plan", run_line + "\n" + plan + "\n" + step_line) + "'");
  EXPECT_EQ(no_layers.exit_code, 0) << no_layers.err;
  EXPECT_TRUE(has(no_layers.out, "with --plan auto it would tell")) << no_layers.out;
}

TEST(Simulate, WhatMakesNoSenseIsOneSentence) {
  for (const auto& [options, sentence] :
       {std::pair{"--model lenet --workers 0", "is no number of workers (--workers)"},
        {"--model lenet --workers 8..2", "ends before it begins (--workers)"},
        {"--model lenet --workers 65 --allreduce tree:2", "only 64 can be simulated one by one"},
        {"--model lenet --allreduce nccl", "is not ours"},
        {"--model lenet --compute gflops:0", "is no rate of computing (--compute)"},
        {"--model lenet --link fast", "is not a link (--link)"},
        {"--model lenet --message-time 5x", "'5x' is no time (--message-time)"},
        {"--model lenet --workers 128 --link 1gbit,1ms,1ms", "a ring without jitter"},
        {"--model lenet --workers 128 --sync ps", "129 ranks do not all do the same"},
        {"--model lenet --workers 2 --sync ps --servers 2147483647", "2147483647 servers are too many (--servers)"},
        {"--model lenet --workers 2 --sum-rate 1e-300", "1e-300 is out of range (--sum-rate)"},
        {"--model lenet --sync strom --threshold 0.1", "what --sync strom sends depends on the gradients' values"},
        {"--model lenet --sweep density", "is no setting with values (--sweep)"},
        {"--model lenet --workers 2 --sweep densiti=0.1,0.2", "unknown setting 'densiti' (--sweep)"},
        {"--model lenet --workers 2 --sweep json=1,2", "--json has no values to go through (--sweep)"},
        {"--model lenet --sweep batch=8,16", "there are several numbers of workers (--sweep)"},
        {"--model lenet --workers 2 --sweep batch=8,-1", "'-1' is not a whole number of at least 1 (--batch)"},
        {"--model lenet --workers 2 --sweep density=0.1,0.2", "--sync allreduce has no use for it (--density)"},
        {"--model lenet --workers 2 --sweep batch=8,16 --vs 'one: --batch 4'",
         "the set 'one' gives what is swept (--batch)"},
        {"--model lenet --workers 2 --sweep batch=8,16 --vs 'more: --workers 2,4'",
         "several numbers of workers (--sweep)"},
        {"--model lenet --workers 2 --vs 'one: --sweep batch=8,16'", "a set cannot have it (--sweep)"},
        {"--model lenet --workers 2 --vs 'one: --json'", "a set cannot have it (--json)"},
        {"--model lenet --rate 1gbit,1ms", "is no rate of a link (--rate)"},
        {"--model lenet --sum-rate 0", "(--sum-rate)"},
        {"--model lenet --ranks-per-host 2", "nothing joins the hosts (--ranks-per-host)"},
        {"--model lenet --link-between 1gbit,1ms", "there are no hosts to join (--link-between)"},
        {"--model lenet --workers 128 --ranks-per-host 2 --link-between 1gbit,1ms", "servers, hosts and exceptions"},
        {"--model lenet --nic inceptionn", "has no other codec than its own (--nic)"},
        {"--model lenet --nic inceptionn --codec inceptionn:rel:2^0", "has no other codec than its own (--nic)"},
        {"--model lenet --nic inceptionn --codec inceptionn:2^-10 --codec-feedback", "(--codec-feedback)"},
        {"--model lenet --nic inceptionn --codec inceptionn:2^-10 --ranks-per-host 2 --link-between 1gbit,0s",
         "passes no network card"},
        {"--model lenet --payload-bits 5", "every value has 32 bits (--payload-bits)"},
        {"--model lenet --sync redsync --codec bf16", "adds up nothing that could pass through it"},
        {"--model lenet --density 0.1", "--sync allreduce has no use for it (--density)"},
        {"--model lenet --sync rounds --every 20000", "goes through at most 10000 (--every)"},
        {"--model lenet --workers 2 --link-of 2=1mbit,1ms", "there is no rank 2 among 2"},
        {"--model lenet --codec-feedback", "without a codec nothing is lost (--codec-feedback)"},
        {"--model lenet --straggle -1", "(--straggle)"},
        {"--model lenett", "unknown model 'lenett'"}}) {
    const Result result = run(std::string("laconic simulate ") + options);
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_NE(result.err.find(sentence), std::string::npos) << options << ": " << result.err;
  }
  EXPECT_EQ(run("laconic simulate --model lenet --compute /nowhere").exit_code, 1);
}

// A file of times says of which batch and model they are.
TEST(Simulate, TakesTimesOfItsOwnModelAndBatch) {
  const TempFolder folder;
  const std::string file = folder / "layers.json";
  const Result times = run("laconic bench layers --model lenet --batch 2 --steps 1 --json");
  ASSERT_EQ(times.exit_code, 0) << times.err;
  EXPECT_EQ(nlohmann::json::parse(times.out)["batch"], 2);
  folder.write("layers.json", std::vector<std::uint8_t>(times.out.begin(), times.out.end()));
  const std::string of_file = "laconic simulate --workers 2 --sum-rate 8 --json --compute " + file;
  const Result own = run(of_file + " --model lenet --batch 2");
  ASSERT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(nlohmann::json::parse(own.out)["compute"], file);
  const Result batch = run(of_file + " --model lenet --sweep batch=2,8");
  EXPECT_EQ(batch.exit_code, 2);
  EXPECT_TRUE(has(batch.err, "was measured with a batch of 2 (--compute), not of 8")) << batch.err;
  const Result classes = run(of_file + " --model lenet --batch 2 --classes 100");
  EXPECT_EQ(classes.exit_code, 1);
  EXPECT_TRUE(has(classes.err, "elements, which the model does not have")) << classes.err;
  const Result sets = run(of_file + " --model lenet --batch 2 --vs here: --vs 'other: --compute gflops:1'");
  ASSERT_EQ(sets.exit_code, 0) << sets.err;
  EXPECT_EQ(nlohmann::json::parse(sets.out)["compute"], file + ", gflops:1");
}

}  // namespace
}  // namespace laconic
