// A training step in virtual time against arithmetic, and `laconic simulate`.
#include <nlohmann/json.hpp>

#include "apps/simulate/model_facts.h"
#include "dist/planner/simulation.h"
#include "tests/error_of.h"
#include "tests/program.h"

namespace laconic {
namespace {

using namespace std::chrono_literals;

dist::SimulatedTraining lenet(dist::Overlap overlap, int workers = 2, const char* allreduce = "ring") {
  const GhostModel ghost("lenet", 0);
  dist::PlanOptions options;
  dist::set_allreduce(options, allreduce);
  return {.parameters = ghost.parameters(),
          .times = layer_times_at(1e10, "lenet", 0, 32),
          .plan = dist::make_plan(ghost.arena.parameters(), options, workers),
          .facts = {.workers = workers, .overlap = overlap}};
}

dist::SimulatedTraining of_method(const std::string& model, const std::string& sync, int workers,
                                  dist::Overlap overlap = dist::Overlap::forward) {
  const GhostModel ghost(model, 0);
  dist::SimulatedTraining training{.parameters = ghost.parameters(),
                                   .times = layer_times_at(1e10, model, 0, 32),
                                   .method = dist::method(sync),
                                   .facts = {.workers = workers, .momentum = 0.9, .overlap = overlap}};
  dist::PlanOptions options;
  training.method->shape(options, training.facts);
  training.plan = dist::make_plan(ghost.arena.parameters(), options, workers);
  return training;
}

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
  std::vector<dist::SimulatedTraining> trainings{of_method("hdc", "redsync", 4), of_method("hdc", "randomk", 4)};
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
}

/// All methods, each either simulated or refused; what they send is what they expect to send.
TEST(Simulate, EveryMethodSendsWhatItExpectsOrIsRefused) {
  const GhostModel ghost("hdc", 0);
  for (const std::string& name : dist::methods().names()) {
    dist::SimulatedTraining training = of_method("hdc", name, 2);
    if (!training.method->traits().on_ghosts) {
      expect_error<UsageError>([&] { simulate_step(training, kPair); }, {"`sync` " + name, "a simulation has none"});
      continue;
    }
    const auto expected = training.method->expected_bytes(training.plan, ghost.arena.parameters(), training.facts);
    ASSERT_TRUE(expected) << name;
    const dist::SimulatedStep step = simulate_step(training, kPair);
    EXPECT_NEAR(step.bytes_sent, *expected, 0.02 * *expected + 64) << name;
    EXPECT_GE(step.seconds, step.compute_seconds) << name;
  }
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

TEST(Simulate, SetsStandInOneTableAndOnePicture) {
  const TempFolder folder;
  const std::string file = folder / "curves.svg";
  const Result result = run("laconic simulate --model lenet --compute gflops:10 --workers 1..8 --svg " + file +
                            " --vs 'all: --sync allreduce' --vs 'few & large: --sync redsync --density 0.01'"
                            " --vs 'a server: --sync ps --servers 1' --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[4]["set"], "few & large");
  EXPECT_LT(rows[7]["bytes_sent"], rows[3]["bytes_sent"]);
  const std::string picture = text_of(file);
  for (const char* part : {"<svg ", "few &amp; large", "ideal", "8 workers: ", "</svg>"})
    EXPECT_NE(picture.find(part), std::string::npos) << part;
  std::size_t curves = 0;
  for (std::size_t at = 0; (at = picture.find("<polyline", at)) != std::string::npos; ++at) ++curves;
  EXPECT_EQ(curves, 3u);
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
  EXPECT_GT(row(" --link 5mbit,1ms")["step_ms"], 3 * own["step_ms"].get<double>());
  EXPECT_LT(row(" --codec bf16")["bytes_sent"], 0.55 * own["bytes_sent"].get<double>());
  EXPECT_GT(row(" --model hdc --compute gflops:10")["bytes_sent"], 10 * own["bytes_sent"].get<double>());
  const Result refused = run(replay + " --batch 8");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(has(refused.err, "computing is that of the log (--batch)")) << refused.err;

  const Result explained = run("laconic explain " + log);
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  for (const char* part : {"lenet, 20 steps counted, the first 10 left out.", "A step takes ", "The plan predicted ",
                           "waiting for gradients", "as it is, simulated", "--codec bf16", "a link of twice the rate"})
    EXPECT_TRUE(has(explained.out, part)) << part << "\n" << explained.out;
}

TEST(Simulate, WhatIsNoLogIsOneSentence) {
  const TempFolder folder;
  folder.write("none", {'h', 'a', 'l', 'l', 'o', '\n'});
  folder.write("empty", {});
  const std::string run_line = R"({"run":{"model":"lenet"}})", step_line = R"({"step":1,"step_ms":2.5,"forward_ms":1})";
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
  EXPECT_TRUE(has(r.out, "with --plan auto it would tell")) << r.out;
  EXPECT_TRUE(
      has(run("laconic simulate --replay '" + (folder / "no steps") + "'").err, "has no measured plan (--replay)"));
}

TEST(Simulate, WhatMakesNoSenseIsOneSentence) {
  for (const auto& [options, sentence] :
       {std::pair{"--model lenet --workers 0", "is no number of workers (--workers)"},
        {"--model lenet --workers 8..2", "ends before it begins (--workers)"},
        {"--model lenet --workers 65 --allreduce tree:2", "only 64 can be simulated one by one"},
        {"--model lenet --allreduce mpi", "is not ours"},
        {"--model lenet --compute gflops:0", "is no rate of computing (--compute)"},
        {"--model lenet --link fast", "is not a link (--link)"},
        {"--model lenet --message-time 5x", "'5x' is no time (--message-time)"},
        {"--model lenet --workers 128 --link 1gbit,1ms,1ms", "a ring without jitter"},
        {"--model lenet --workers 128 --sync ps", "129 ranks do not all do the same"},
        {"--model lenet --sync layerdrop", "what --sync layerdrop sends depends on the gradients' values"},
        {"--model lenet --sync redsync --sparse-reduce split", "a simulation has none (--sync)"},
        {"--model lenet --sync redsync --codec bf16", "adds up nothing that could pass through it"},
        {"--model lenet --density 0.1", "--sync allreduce has no use for it (--density)"},
        {"--model lenet --sync rounds --every 20000", "goes through at most 10000 (--every)"},
        {"--model lenet --workers 2 --link-of 2=1mbit,1ms", "there is no rank 2 among 2"},
        {"--model lenet --codec-feedback", "without a codec nothing is lost (--codec-feedback)"},
        {"--model lenet --workers 2 --svg /tmp/x.svg --compute gflops:1",
         "one number of workers makes no curve (--svg)"},
        {"--model lenet --straggle -1", "(--straggle)"},
        {"--model lenett", "unknown model 'lenett'"}}) {
    const Result result = run(std::string("laconic simulate ") + options);
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_NE(result.err.find(sentence), std::string::npos) << options << ": " << result.err;
  }
  EXPECT_EQ(run("laconic simulate --model lenet --compute /nowhere").exit_code, 1);
}

}  // namespace
}  // namespace laconic
