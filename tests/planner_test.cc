// The planner: its predictions against the real collectives in virtual time, its choice against all there are, and what
// it makes of a network that is known.
#include "dist/planner/planner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/simulate/model_facts.h"
#include "dist/planner/simulation.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"

namespace laconic::dist {
namespace {

Calibration group(int workers, double bits_per_second, double latency_seconds, double taken = 0) {
  Calibration c{.workers = workers, .bytes_per_second = bits_per_second / 8, .latency_seconds = latency_seconds};
  c.work = {.per_added_byte = 1e-10, .per_message = 2e-6, .per_byte = 1e-10, .taken_from_computing = taken};
  for (const char* codec : {"bf16", "inceptionn:rel:2^0"}) c.codecs[codec] = {.encode = 3e-10, .decode = 2e-10};
  return c;
}

PlanningFacts facts_of(const GhostModel& ghost, const std::string& model, Calibration group) {
  return {.parameters = ghost.arena.parameters(),
          .times = layer_times_at(5e10, model, 0, 16),
          .group = std::move(group),
          .allowed = Allowed::parse("16bit,bounded:rel:2^0", "--allow")};
}

double simulated(const PlanningFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .overlap = facts.overlap};
  network.mirrored = is_alike(training, network);
  for (const auto& p : facts.parameters) training.parameters.push_back(p->info);
  return simulate_step(training, network).seconds;
}

/// The schedule alone leaves out how hops of one message wait for each other.
TEST(Planner, PredictsWhatTheCollectivesTake) {
  const char* const allreduces[] = {"ring", "doubling", "butterfly"};
  for (const char* model : {"lenet", "resnet20", "alexnet-32"}) {
    const GhostModel ghost(model, 0);
    for (const auto& row : all_combinations({2, 2, std::size(allreduces), 2, 2})) {
      const int workers = row[0] == 0 ? 2 : 4;
      const double rate = row[1] == 0 ? 1e8 : 1e9, taken = static_cast<double>(row[4]);
      const char* const allreduce = allreduces[row[2]];
      const char* const codec = row[3] == 0 ? "none" : "bf16";
      PlanningFacts facts = facts_of(ghost, model, group(workers, rate, 100e-6, taken));
      PlanOptions options;
      set_allreduce(options, allreduce), set_codec(options, codec);
      const Plan plan = make_plan(facts.parameters, options, workers);
      const double whole = simulated(facts, plan);
      EXPECT_NEAR(predict_step(facts, plan), whole, 0.12 * whole)
          << model << " " << workers << " " << rate << " " << allreduce << " " << codec << " " << taken;
    }
  }
}

/// Every assignment of an allreduce to each bucket of a small model.
TEST(Planner, NoAssignmentOfItsSizesIsMuchFaster) {
  const GhostModel ghost("lenet", 0);
  for (const double rate : {1e7, 1e8, 1e9, 1e10})
    for (const double latency : {10e-6, 1e-3}) {
      PlanningFacts facts = facts_of(ghost, "lenet", group(4, rate, latency));
      facts.allowed = {};
      const Planned planned = make_best_plan(facts);
      const double own = predict_step(facts, planned.plan);
      const std::vector<std::string> names{"ring", "butterfly", "doubling"};
      double least = own;
      for (const std::size_t bytes : {64 << 10, 256 << 10, 1 << 20}) {
        Plan plan = make_plan(facts.parameters, {.bucket_bytes = bytes}, 4);
        ASSERT_LE(plan.buckets.size(), 6u);
        const auto all = static_cast<int>(std::pow(names.size(), plan.buckets.size()));
        for (int i = 0; i < all; ++i) {
          int digits = i;
          for (Bucket& b : plan.buckets) b.allreduce = names[static_cast<std::size_t>(digits % 3)], digits /= 3;
          least = std::min(least, predict_step(facts, plan));
        }
      }
      EXPECT_LE(own, 1.03 * least) << rate << " " << latency;
      RecordProperty(concat("regret_at_", rate, "_", latency), std::to_string(own / least - 1));
    }
}

TEST(Planner, SlowLinksGetWhatIsAllowedAndFastOnesAreLeftAlone) {
  const GhostModel ghost("alexnet-32", 0);
  PlanningFacts facts = facts_of(ghost, "alexnet-32", group(2, 1e8, 100e-6));
  EXPECT_EQ(make_best_plan(facts).plan.codec, "inceptionn:rel:2^0");
  facts.allowed.bounded.reset();
  EXPECT_EQ(make_best_plan(facts).plan.codec, "bf16");
  facts.allowed = {};
  const Planned exact = make_best_plan(facts);
  EXPECT_EQ(exact.plan.codec, "none");
  EXPECT_NE(exact.receipt.lines.front().bucket.find("features.0"), std::string::npos) << "in the order of forward";
  double bytes = 0;
  for (const Receipt::Line& line : exact.receipt.lines) bytes += line.bytes;
  EXPECT_NEAR(bytes, 4.0 * 23'272'266, 1e4);
  // 1 Tbit/s: nothing waits, and what every hop costs is not worth having.
  const PlanningFacts fast = facts_of(ghost, "alexnet-32", group(2, 1e12, 1e-6));
  EXPECT_EQ(make_best_plan(fast).plan.codec, "none");
}

TEST(Planner, ManySmallMessagesOverALongLinkAreFewHops) {
  const GhostModel ghost("lenet", 0);
  PlanningFacts facts = facts_of(ghost, "lenet", group(8, 1e10, 5e-3));
  facts.allowed = {};
  const Planned planned = make_best_plan(facts);
  for (const Bucket& b : planned.plan.buckets) EXPECT_EQ(b.allreduce, "doubling") << b.name;  // 3 hops, a ring has 14
}

TEST(Planner, AllowsWhatIsNamed) {
  EXPECT_EQ(Allowed::parse("exact", "--allow").codecs(), std::vector<std::string>{"none"});
  EXPECT_EQ(Allowed::parse("16bit,bounded:2^-10", "--allow").codecs(),
            (std::vector<std::string>{"none", "bf16", "inceptionn:2^-10"}));
  for (const char* wrong : {"", "sparse", "16bit,", "bounded:", "bounded:3", "8bit"})
    expect_error<UsageError>([&] { Allowed::parse(wrong, "--allow"); }, {"--allow"});
}

}  // namespace
}  // namespace laconic::dist
