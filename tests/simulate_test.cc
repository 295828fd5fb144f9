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
  return {ghost.parameters(), layer_times_at(1e10, "lenet", 0, 32),
          dist::make_plan(ghost.arena.parameters(), options, workers), overlap};
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
  for (const char* allreduce : {"ring", "butterfly", "doubling"}) {
    const dist::SimulatedTraining training = lenet(dist::Overlap::forward, 4, allreduce);
    ASSERT_TRUE(is_alike(training.plan, network));
    network.mirrored = false;
    const dist::SimulatedStep whole = simulate_step(training, network);
    network.mirrored = true;
    const dist::SimulatedStep mirrored = simulate_step(training, network);
    EXPECT_NEAR(whole.seconds, mirrored.seconds, 1e-3 * whole.seconds) << allreduce;
  }
  network.ranks = 3;
  EXPECT_FALSE(is_alike(lenet(dist::Overlap::forward, 3, "doubling").plan, network)) << "doubling among three";
  network.ranks = 4;
  EXPECT_FALSE(is_alike(lenet(dist::Overlap::forward, 4, "tree:2").plan, network));
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

TEST(Simulate, WhatMakesNoSenseIsOneSentence) {
  for (const auto& [options, sentence] :
       {std::pair{"--model lenet --workers 0", "is no number of workers (--workers)"},
        {"--model lenet --workers 8..2", "ends before it begins (--workers)"},
        {"--model lenet --workers 65 --allreduce tree:2", "only 64 can be simulated one by one (--workers)"},
        {"--model lenet --allreduce mpi", "is not ours"},
        {"--model lenet --compute gflops:0", "is no rate of computing (--compute)"},
        {"--model lenet --link fast", "is not a link (--link)"},
        {"--model lenet --message-time 5x", "'5x' is no time (--message-time)"},
        {"--model lenet --workers 128 --link 1gbit,1ms,1ms", "and the jitter of --link"},
        {"--model lenett", "unknown model 'lenett'"}}) {
    const Result result = run(std::string("laconic simulate ") + options);
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_NE(result.err.find(sentence), std::string::npos) << options << ": " << result.err;
  }
  EXPECT_EQ(run("laconic simulate --model lenet --compute /nowhere").exit_code, 1);
}

}  // namespace
}  // namespace laconic
