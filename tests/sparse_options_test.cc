// What travels how under RedSync and its neighbours: dispatch, cost model, warm-up, options that make no sense
// together.
#include <gtest/gtest.h>

#include "dist/method/redsync/method.h"
#include "dist/plan/plan.h"

namespace laconic::dist {
namespace {

ParameterInfo info_of(std::int64_t elements, Role role, bool output = false) {
  ParameterInfo info;
  info.role = role, info.output = output, info.elements = elements;
  return info;
}

TEST(Choice, ByThePaperOfCnnsIsTrimmedFromItsSizeOn) {
  const Dispatch paper{.kind = Dispatch::Kind::paper};
  for (const Role role : {Role::conv, Role::linear}) {
    EXPECT_EQ(choice_of(info_of(32767, role), false, paper, 4).selector, "");
    EXPECT_EQ(choice_of(info_of(32768, role), false, paper, 4), (Choice{"trimmed", false}));
  }
  EXPECT_EQ(choice_of(info_of(40960, Role::linear, true), false, paper, 4), (Choice{"trimmed", false}));
}

TEST(Choice, ByThePaperOfRecurrentModelsIsTheSampledSearchAndUnsampledIfQuantised) {
  Dispatch paper{.kind = Dispatch::Kind::paper};
  EXPECT_EQ(choice_of(info_of(50000, Role::recurrent), true, paper, 4), (Choice{"sampled", false}));
  EXPECT_EQ(choice_of(info_of(50000, Role::embedding), true, paper, 4), (Choice{"sampled", false}));
  EXPECT_EQ(choice_of(info_of(50000, Role::linear, true), true, paper, 4), (Choice{"sampled", false}));
  EXPECT_EQ(choice_of(info_of(50000, Role::linear), true, paper, 4), (Choice{"trimmed", false}));
  paper.quantised = true;
  EXPECT_EQ(choice_of(info_of(50000, Role::recurrent), true, paper, 4), (Choice{"search", true}));
  EXPECT_EQ(choice_of(info_of(50000, Role::linear, true), true, paper, 4), (Choice{"sampled", false}))
      << "the output layer is never quantised";
}

TEST(Choice, AutomaticallyIsWhatTakesLessTime) {
  Dispatch d{.kind = Dispatch::Kind::automatic, .density = 0.001};
  EXPECT_EQ(choice_of(info_of(1 << 20, Role::conv), false, d, 1).selector, "") << "nothing travels";
  EXPECT_EQ(choice_of(info_of(1 << 20, Role::conv), false, d, 4).selector, "exact");
  EXPECT_EQ(choice_of(info_of(100, Role::bias), false, d, 4).selector, "") << "latency";
  d.density = 0.3;
  EXPECT_EQ(choice_of(info_of(1 << 20, Role::conv), false, d, 8).selector, "") << "more than dense";
  d.density = 0.001, d.seconds_per_byte = 1e-13;
  EXPECT_EQ(choice_of(info_of(1 << 20, Role::conv), false, d, 4).selector, "")
      << "the network is faster than selecting";
}

TEST(Choice, SendsAtLeastOneElementAndNotMoreThanThereAre) {
  EXPECT_EQ(elements_to_send(1, 0.001), 1);
  EXPECT_EQ(elements_to_send(1000, 0.001), 1);
  EXPECT_EQ(elements_to_send(1001, 0.001), 2);
  EXPECT_EQ(elements_to_send(7, 1), 7);
  for (int percent = 1; percent <= 100; ++percent) EXPECT_EQ(elements_to_send(100, percent / 100.0), percent);
}

TEST(Warmup, FallsByEqualFactorsOrIsDense) {
  const Warmup ramp = Warmup::parse("ramp:4", "--warmup"), dense = Warmup::parse("dense:5", "--warmup");
  const double expected[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001};
  for (int e = 0; e < 6; ++e) EXPECT_DOUBLE_EQ(*ramp.density_in(e, 0.001), expected[e]);
  EXPECT_DOUBLE_EQ(*ramp.density_in(1, 0.1), 0.1);
  EXPECT_FALSE(dense.density_in(4, 0.001));
  EXPECT_EQ(dense.density_in(5, 0.001), 0.001);
  EXPECT_EQ(Warmup::parse("none", "--warmup").density_in(0, 0.01), 0.01);
  EXPECT_EQ(ramp.to_string(), "ramp:4");
  for (const char* text : {"", "ramp", "ramp:", "ramp:0", "dense:-1", "dense:2x", "slow:3"})
    EXPECT_THROW(Warmup::parse(text, "--warmup"), UsageError) << text;
}

std::string refusal(const std::string& sync, const SparseOptions& options) {
  try {
    RedSyncMethod method(*sparse_method(sync));
    method.options = options;
    method.check({});
  } catch (const UsageError& e) {
    return e.what();
  }
  return "taken";
}

TEST(SparseOptions, ThatMakeNoSenseTogetherAreRefused) {
  for (const SparseMethod& m : sparse_methods())
    EXPECT_EQ(refusal(m.name, {.threshold = m.name == std::string("strom") ? 0.1 : 0}), "taken") << m.name;
  EXPECT_NE(refusal("redsync", {.density = 0}).find("`density`"), std::string::npos);
  EXPECT_NE(refusal("redsync", {.density = 1.5}).find("`density`"), std::string::npos);
  EXPECT_NE(refusal("redsync", {.selector = "sampled", .quantised = true}).find("`qrgc`"), std::string::npos);
  EXPECT_NE(refusal("redsync", {.selector = "trimed"}).find("trimmed"), std::string::npos);
  EXPECT_NE(refusal("strom", {}).find("`threshold`"), std::string::npos);
  EXPECT_NE(refusal("adacomp", {.warmup = Warmup::parse("ramp:4", "")}).find("`warmup`"), std::string::npos);
  EXPECT_EQ(sparse_method("allreduce"), nullptr);
}

TEST(SparseOptions, ASelectorOfOnesOwnIsRefusedWhereItMakesNoSense) {
  const auto make = [](const compress::SelectorOptions&) { return compress::make_selector("exact"); };
  compress::selectors().push_back({"alike", {.one_value = false, .same_everywhere = true}, make});
  compress::selectors().push_back({"plus-minus", {.one_magnitude = true}, make});
  EXPECT_EQ(refusal("redsync", {.selector = "alike"}), "taken");
  EXPECT_NE(refusal("redsync", {.selector = "alike", .quantised = true}).find("`qrgc`"), std::string::npos);
  EXPECT_NE(refusal("redsync", {.selector = "plus-minus"}).find("`selector`"), std::string::npos);
  compress::selectors().resize(compress::selectors().size() - 2);
}

TEST(SparseOptions, AMethodFitsThePlansThatAreMadeForIt) {
  const SparseMethod &redsync = *sparse_method("redsync"), &strom = *sparse_method("strom");
  EXPECT_TRUE(fits(redsync, {}));
  EXPECT_TRUE(fits(redsync, {"trimmed", true}));
  EXPECT_TRUE(fits(redsync, {"sampled", false}));
  EXPECT_FALSE(fits(redsync, {"sampled", true}));
  EXPECT_FALSE(fits(redsync, {"", true}));
  for (const char* method : {"fixed", "dropping", "dgc", "adacomp", "random"})
    EXPECT_FALSE(fits(redsync, {method, false}));
  EXPECT_TRUE(fits(strom, {"fixed", false}));
  EXPECT_FALSE(fits(strom, {"exact", false}));
}

/// conv 144 KiB, its norm, a large linear weight of 3 chunks, its bias, the output layer.
ParameterArena model_with_norm() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {
      {"conv", {64, 64, 3, 3}, Role::conv}, {"bn.weight", {64}, Role::norm},
      {"bn.bias", {64}, Role::norm},        {"fc1.weight", {1536, 2048}, Role::linear},
      {"fc1.bias", {1536}, Role::bias},     {"out.weight", {100, 1536}, Role::linear},
      {"out.bias", {100}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
    parameters.back()->info.output = std::string(name).starts_with("out");
  }
  return ParameterArena(parameters);
}

TEST(SparsePlan, SaysOfEveryParameterHowItTravels) {
  const ParameterArena arena = model_with_norm();
  PlanOptions options{.sparse = dispatch_of(*sparse_method("redsync"), {.quantised = true})};
  const Plan whole = make_plan(arena.parameters(), options, 4);
  EXPECT_EQ(whole.chunk_rows(3), 0) << "its message is one anyway";
  options.chunk_sparse = true;
  const Plan plan = make_plan(arena.parameters(), options, 4);
  EXPECT_TRUE(plan.sparse());
  std::vector<std::string> rows;
  for (const Bucket& b : plan.buckets) rows.push_back(b.name + ": " + to_string(b.choice));
  EXPECT_EQ(rows, (std::vector<std::string>{"out.bias: all", "out.weight: trimmed", "fc1.bias: all",
                                            "fc1.weight[0:512]: trimmed, signs", "fc1.weight[512:1024]: trimmed, signs",
                                            "fc1.weight[1024:1536]: trimmed, signs", "bn.bias..bn.weight: all",
                                            "conv: trimmed, signs"}));
  EXPECT_EQ(plan.chunk_rows(3), 512);
  EXPECT_TRUE(plan.sparse(3));
  EXPECT_FALSE(plan.sparse(2));
  EXPECT_FALSE(make_plan(arena.parameters(), {}, 4).sparse());
  EXPECT_NE(plan.table().find("trimmed, signs"), std::string::npos);

  const Plan read = Plan::from_json(plan.json(), arena.parameters(), "here");
  EXPECT_EQ(read.json(), plan.json());
  EXPECT_EQ(read.table(), plan.table());
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = plan.json();
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    EXPECT_THROW(Plan::from_json(text.replace(at, from.size(), to), arena.parameters(), "here"), DataError) << to;
  };
  refused("\"trimmed\"", "\"trimed\"");
  refused("\"choice\":\"trimmed\",\"quantised\":true", "\"choice\":\"search\"");  // one chunk unlike the others
}

}  // namespace
}  // namespace laconic::dist
