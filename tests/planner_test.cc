// The planner: its predictions against the real collectives in virtual time, its choice against all there are, and what
// it makes of a network that is known.
#include "dist/predict/planner.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "apps/bench/layers.h"
#include "dist/predict/simulation.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"

namespace laconic::dist {
namespace {

Calibration group(int workers, double bits_per_second, double latency_seconds, double taken = 0) {
  Calibration c{.workers = workers, .bytes_per_second = bits_per_second / 8, .latency_seconds = latency_seconds};
  c.work = {.per_added_byte = 1e-10, .per_message = 2e-6, .per_byte = 1e-10, .taken_from_computing = taken};
  c.work.per_gathered_element = 1e-9, c.work.per_selected_element = 1e-9, c.work.per_scattered_element = 3e-9;
  for (const char* codec : {"bf16", "inceptionn:rel:2^0"}) c.codecs[codec] = {.encode = 3e-10, .decode = 2e-10};
  return c;
}

PredictionFacts facts_of(const GhostModel& ghost, const std::string& model, Calibration group) {
  return {.parameters = ghost.arena.parameters(),
          .times = layer_times_at(5e10, model, 0, 16),
          .group = std::move(group),
          .allowed = Allowed::parse("16bit,bounded:rel:2^0", "--allow")};
}

double simulated(const PredictionFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .momentum = 0.9, .overlap = facts.overlap};
  if (const MethodChoice* choice = facts.allowed.find(plan.sync)) training.method = choice->method;
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
      PredictionFacts facts = facts_of(ghost, model, group(workers, rate, 100e-6, taken));
      PlanOptions options;
      set_allreduce(options, allreduce), set_codec(options, codec);
      const Plan plan = make_plan(facts.parameters, options, workers);
      const double whole = simulated(facts, plan);
      EXPECT_NEAR(predict_step(facts, plan), whole, 0.12 * whole)
          << model << " " << workers << " " << rate << " " << allreduce << " " << codec << " " << taken;
    }
  }
}

TEST(Planner, PredictsWhatAChoiceOfElementsTakes) {
  for (const char* model : {"lenet", "resnet20", "alexnet-32", "hdc"}) {
    const GhostModel ghost(model, 0);
    for (const auto& row : all_combinations({4, 3, 2})) {
      const int workers = std::array{2, 3, 4, 8}[row[0]];
      const double rate = std::array{1e7, 1e8, 1e9}[row[1]];
      const char* const allowed = row[2] == 0 ? "sparse" : "sparse:0.02";
      PredictionFacts facts = facts_of(ghost, model, group(workers, rate, 100e-6));
      facts.allowed = Allowed::parse(allowed, "--allow");
      const MethodChoice& choice = facts.allowed.methods.at(0);
      Plan plan = make_plan(facts.parameters, choice.options(workers), workers);
      plan.sync = choice.method->name();
      const double whole = simulated(facts, plan);
      EXPECT_NEAR(predict_step(facts, plan), whole, 0.2 * whole)
          << model << " " << workers << " " << rate << " " << allowed;
    }
  }
}

TEST(Planner, AChoiceOfElementsIsForSlowLinks) {
  const GhostModel ghost("alexnet-32", 0);
  const auto planned = [&](double rate, const char* allowed, const char* only = "") {
    PredictionFacts facts = facts_of(ghost, "alexnet-32", group(4, rate, 50e-6));
    facts.allowed = Allowed::parse(allowed, "--allow"), facts.momentum = 0.9;
    return make_best_plan(facts, only);
  };
  const Planned slow = planned(1e8, "sparse:0.01,16bit");
  EXPECT_TRUE(slow.plan.sparse());
  EXPECT_EQ(slow.receipt.sync, "redsync");
  EXPECT_NE(slow.receipt.json().find("\"settings\":{\"density\":\"0.01\"}"), std::string::npos);
  ASSERT_GE(slow.receipt.candidates.size(), 2u);
  EXPECT_NE(slow.receipt.candidates[0].plan.find("redsync, 1 %"), std::string::npos);
  EXPECT_NE(slow.receipt.candidates[1].plan.find("bf16"), std::string::npos) << "the runner-up is of another kind";
  const Planned fast = planned(1e12, "sparse:0.01");
  EXPECT_FALSE(fast.plan.sparse());
  EXPECT_EQ(fast.receipt.sync, "allreduce");
  EXPECT_TRUE(planned(1e12, "sparse:0.01", "redsync").plan.sparse());
}

/// A round's exchange is simulated with the method itself, step by step.
TEST(Planner, PredictsTheMeanStepOfARound) {
  for (const char* model : {"lenet", "alexnet-32"}) {
    const GhostModel ghost(model, 0);
    for (const auto& row : all_combinations({2, 2, 2})) {
      const int workers = row[0] == 0 ? 2 : 4;
      const double rate = row[1] == 0 ? 1e8 : 1e9;
      PredictionFacts facts = facts_of(ghost, model, group(workers, rate, 100e-6));
      facts.allowed = Allowed::parse(row[2] == 0 ? "rounds" : "rounds:3", "--allow");
      Plan plan = make_plan(facts.parameters, {}, workers);
      plan.sync = "rounds";
      const double whole = simulated(facts, plan);
      EXPECT_NEAR(predict_step(facts, plan), whole, 0.12 * whole) << model << " " << workers << " " << rate;
    }
  }
}

TEST(Planner, RoundsAreForSlowLinks) {
  const GhostModel ghost("alexnet-32", 0);
  const auto planned = [&](double rate, const char* allowed, const char* only = "") {
    PredictionFacts facts = facts_of(ghost, "alexnet-32", group(4, rate, 50e-6));
    facts.allowed = Allowed::parse(allowed, "--allow");
    return make_best_plan(facts, only);
  };
  const Planned slow = planned(1e8, "rounds:20,16bit");
  EXPECT_EQ(slow.plan.sync, "rounds");
  EXPECT_EQ(slow.plan.codec, "bf16") << "what workers changed may travel in 16 bits too";
  EXPECT_EQ(slow.receipt.sync, "rounds");
  EXPECT_NE(slow.receipt.json().find("\"settings\":{\"every\":\"20\"}"), std::string::npos);
  EXPECT_EQ(slow.receipt.candidates[0].plan.find("rounds of 20 steps, sgd, "), 0u);
  EXPECT_LT(slow.receipt.step_ms, planned(1e8, "16bit").receipt.step_ms / 5);
  EXPECT_EQ(planned(1e12, "rounds:20").plan.sync, "") << "nothing waits";
  EXPECT_EQ(planned(1e8, "rounds:1").plan.sync, "") << "as many messages as sums have";
  EXPECT_EQ(planned(1e12, "rounds:20", "rounds").plan.sync, "rounds");
}

/// A model of linear layers that each compute for 1 ms, and then for 2.
struct Layered {
  explicit Layered(const std::vector<std::int64_t>& rows) : arena(parameters(rows), kGhost) {
    for (std::size_t l = 0; l < rows.size(); ++l) {
      const std::string name = concat("layer", l);
      const double update_ms = 1e-6 * 64 * static_cast<double>(rows[l]);
      times.layers.push_back({name, 1, 2, {{name + ".weight", 64 * rows[l], 2, update_ms}}});
      times.step_ms += 3;
    }
  }
  static std::vector<std::shared_ptr<Parameter>> parameters(const std::vector<std::int64_t>& rows) {
    std::vector<std::shared_ptr<Parameter>> all;
    for (std::size_t l = 0; l < rows.size(); ++l) {
      all.push_back(std::make_shared<Parameter>(Shape{rows[l], 64}, Role::linear, kGhost));
      all.back()->info.name = concat("layer", l, ".weight");
    }
    return all;
  }
  PredictionFacts facts(const Calibration& group) const {
    return {.parameters = arena.parameters(), .times = times, .group = group};
  }

  ParameterArena arena;
  LayerTimes times;
};

/// Puts neighbours together: those between which a bit is set.
Plan joined(const Plan& alone, unsigned bits) {
  Plan plan = alone;
  plan.buckets.clear();
  for (std::size_t i = 0; i < alone.buckets.size(); ++i) {
    const Bucket& b = alone.buckets[i];
    if (i > 0 && (bits >> (i - 1) & 1)) {
      Bucket& last = plan.buckets.back();
      last.count += b.count, last.elements = b.offset + b.elements - last.offset, last.priority = b.priority;
      last.pieces = static_cast<int>((4 * last.elements + (256 << 10) - 1) / (256 << 10));
    } else {
      plan.buckets.push_back(b);
    }
    plan.bucket_of[i] = static_cast<int>(plan.buckets.size()) - 1;
  }
  return plan;
}

/// The fastest of all ways to put neighbours together, with every assignment of allreduces to messages.
double least_of_all(const PredictionFacts& facts, const std::vector<const char*>& names) {
  const Plan alone = make_plan(facts.parameters, {.bucket_bytes = 0, .chunk_bytes = 0}, facts.group.workers);
  double least = 1e9;
  for (unsigned bits = 0; bits < 1u << (alone.buckets.size() - 1); ++bits) {
    Plan plan = joined(alone, bits);
    const auto all = static_cast<int>(std::pow(names.size(), plan.buckets.size()));
    for (int i = 0, digits = 0; i < all; ++i) {
      digits = i;
      for (Bucket& b : plan.buckets)
        b.allreduce = names[static_cast<std::size_t>(digits) % names.size()], digits /= static_cast<int>(names.size());
      least = std::min(least, predict_step(facts, plan));
    }
  }
  return least;
}

/// Regret: how much longer the chosen plan takes than the best there is. The planner keeps the usual plan where that is
/// 1 % slower at most, and knows only a few sizes.
TEST(Planner, RegretIsSmall) {
  const std::pair<const char*, std::vector<std::int64_t>> shapes[] = {{"growing", {64, 512, 4096, 16384}},
                                                                      {"shrinking", {16384, 4096, 512, 64}},
                                                                      {"equal", {1024, 1024, 1024, 1024, 1024}},
                                                                      {"one large", {64, 64, 32768, 64}}};
  double sum = 0;
  int count = 0;
  std::printf("  %-10s %8s %8s %10s %10s %8s\n", "layers", "workers", "Mbit/s", "chosen ms", "least ms", "regret");
  for (const auto& [name, rows] : shapes) {
    const Layered model(rows);
    for (const int workers : {2, 4})
      for (const double rate : {1e8, 1e9, 1e10}) {
        const PredictionFacts facts = model.facts(group(workers, rate, 100e-6));
        const double own = predict_step(facts, make_best_plan(facts).plan);
        const double least = std::min(own, least_of_all(facts, {"ring", "butterfly", "doubling"}));
        const double regret = own / least - 1;
        std::printf("  %-10s %8d %8.0f %10.3f %10.3f %6.2f %%\n", name, workers, 1e-6 * rate, 1e3 * own, 1e3 * least,
                    100 * regret);
        EXPECT_LE(regret, 0.03) << name << " " << workers << " " << rate;
        sum += regret, ++count;
      }
  }
  EXPECT_EQ(count, 24);
  EXPECT_LE(sum / count, 0.01);
}

TEST(LayerTimes, TogetherTheyAreTheMedianStep) {
  std::vector<LayerTimes> steps;
  for (int slow = 0; slow < 5; ++slow) {  // in each step another process stops another layer for 8 ms
    LayerTimes step;
    for (int l = 0; l < 4; ++l)
      step.layers.push_back({concat("layer", l), l == slow ? 9.0 : 1, 2, {{concat("p", l), 1, 1, 0, 1}}});
    step.step_ms = slow < 4 ? 20 : 12;
    steps.push_back(step);
  }
  const LayerTimes times = medians(steps);
  EXPECT_EQ(times.step_ms, 20);
  double sum = 0;
  for (const LayerTimes::Layer& l : times.layers) {
    sum += l.forward_ms + l.backward_ms;
    EXPECT_NEAR(l.backward_ms, 2 * l.forward_ms, 1e-12);
    EXPECT_NEAR(l.parameters[0].ready_ms, l.backward_ms / 2, 1e-12);
  }
  EXPECT_NEAR(sum, 20, 1e-12);
}

TEST(Planner, TwoHundredLayersArePlannedByFewPredictions) {
  const Layered model(std::vector<std::int64_t>(200, 512));
  PredictionFacts facts = model.facts(group(4, 1e9, 50e-6));
  facts.allowed = Allowed::parse("16bit,sparse,rounds", "--allow");
  const Receipt receipt = make_best_plan(facts).receipt;
  EXPECT_GT(receipt.predictions, 100);
  EXPECT_LE(receipt.predictions, 400);
}

/// Every assignment of an allreduce to each bucket of a small model.
TEST(Planner, NoAssignmentOfItsSizesIsMuchFaster) {
  const GhostModel ghost("lenet", 0);
  for (const double rate : {1e7, 1e8, 1e9, 1e10})
    for (const double latency : {10e-6, 1e-3}) {
      PredictionFacts facts = facts_of(ghost, "lenet", group(4, rate, latency));
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
  PredictionFacts facts = facts_of(ghost, "alexnet-32", group(2, 1e8, 100e-6));
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
  const PredictionFacts fast = facts_of(ghost, "alexnet-32", group(2, 1e12, 1e-6));
  EXPECT_EQ(make_best_plan(fast).plan.codec, "none");
}

TEST(Planner, ManySmallMessagesOverALongLinkAreFewHops) {
  const GhostModel ghost("lenet", 0);
  PredictionFacts facts = facts_of(ghost, "lenet", group(8, 1e10, 5e-3));
  facts.allowed = {};
  const Planned planned = make_best_plan(facts);
  for (const Bucket& b : planned.plan.buckets) EXPECT_EQ(b.allreduce, "doubling") << b.name;  // 3 hops, a ring has 14
}

TEST(Planner, AllowsWhatIsNamed) {
  EXPECT_EQ(Allowed::parse("exact", "--allow").codecs(), std::vector<std::string>{"none"});
  EXPECT_EQ(Allowed::parse("16bit,bounded:2^-10", "--allow").codecs(),
            (std::vector<std::string>{"none", "bf16", "inceptionn:2^-10"}));
  const auto only = [](const char* text) { return Allowed::parse(text, "--allow").methods.at(0); };
  EXPECT_EQ(only("sparse").options(2).sparse.density, 1e-3);
  EXPECT_EQ(only("16bit,sparse:0.5").options(2).sparse.density, 0.5);
  EXPECT_EQ(only("rounds").method->traits().period, 8);
  EXPECT_EQ(only("rounds:20").method->traits().period, 20);
  EXPECT_EQ(Allowed::parse("rounds,sparse", "--allow").methods.size(), 2u);
  for (const char* wrong :
       {"", "sparse:", "sparse:0", "sparse:2", "sparse:x", "16bit,", "bounded:", "bounded:3", "8bit", "rounds:",
        "rounds:0", "rounds:1.5", "rounds,rounds:3", "sparse,rounds,sparse:0.1"})
    expect_error<UsageError>([&] { Allowed::parse(wrong, "--allow"); }, {"--allow"});
}

}  // namespace
}  // namespace laconic::dist
