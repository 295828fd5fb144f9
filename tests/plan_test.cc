#include "dist/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dist/method/bucket_sync.h"
#include "tests/dense_training.h"

namespace laconic::dist {
namespace {

using namespace dense_training;

TEST(Plan, KeepsItsCodecAsText) {
  const ParameterArena arena(some_parameters());
  PlanOptions options;
  set_codec(options, "qsgd:8:512");
  EXPECT_EQ(to_string(options), "ring, lazy:1MiB, chunks of 4MiB, codec qsgd:8:512");
  const Plan plan = make_plan(arena.parameters(), options, 2);
  const Plan again = Plan::from_json(plan.json(), arena.parameters(), "a test");
  EXPECT_EQ(again.codec, "qsgd:8:512");
  EXPECT_EQ(again.json(), plan.json());
  EXPECT_NE(plan.table().find("every hop through qsgd:8:512"), std::string::npos);
  EXPECT_EQ(make_plan(arena.parameters(), {}, 2).json().find("codec"), std::string::npos);
  std::string damaged = plan.json();
  damaged.replace(damaged.find("qsgd:8:512"), 10, "qsgd:99:1x");
  EXPECT_THROW(Plan::from_json(damaged, arena.parameters(), "a test"), DataError);
}

TEST(Plan, PutsEveryParameterIntoOneBucketOfArenaNeighbours) {
  const ParameterArena arena(some_parameters());
  for (const std::size_t bucket_bytes :
       {std::size_t{0}, std::size_t{1000}, std::size_t{10'000}, std::size_t{1} << 30}) {
    const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = bucket_bytes});
    int next = 0;
    for (const Bucket& b : plan.buckets) {
      EXPECT_EQ(b.first, next);
      next += b.count;
      if (b.count > 1) {
        const std::int64_t last = arena.parameters()[static_cast<std::size_t>(next - 1)]->info.offset - b.offset;
        EXPECT_TRUE(b.elements * 4 <= static_cast<std::int64_t>(bucket_bytes) ||
                    last * 4 * 16 <= static_cast<std::int64_t>(bucket_bytes));
      }
      const ParameterInfo& last = arena.parameters()[static_cast<std::size_t>(next - 1)]->info;
      EXPECT_EQ(b.offset + b.elements, last.offset + last.elements);
    }
    EXPECT_EQ(next, static_cast<int>(arena.parameters().size()));
    if (bucket_bytes == 0) {
      EXPECT_EQ(plan.buckets.size(), arena.parameters().size());
    }
    if (bucket_bytes == std::size_t{1} << 30) {
      EXPECT_EQ(plan.buckets.size(), 1u);
    }
  }
}

/// conv 3 MB, fc1 32 MB in 8 chunks, fc1's bias, fc2 0.2 MB, fc2's bias; first to last.
ParameterArena some_model() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<std::tuple<const char*, Shape, Role>> of = {{"conv.weight", {256, 3072}, Role::conv},
                                                                {"fc1.weight", {4096, 2048}, Role::linear},
                                                                {"fc1.bias", {4096}, Role::bias},
                                                                {"fc2.weight", {12, 4096}, Role::linear},
                                                                {"fc2.bias", {12}, Role::bias}};
  for (const auto& [name, shape, role] : of) {
    parameters.push_back(std::make_shared<Parameter>(shape, role));
    parameters.back()->info.name = name;
  }
  return ParameterArena(parameters);
}

TEST(Plan, ALargeLinearWeightTravelsInChunksOfRowsTheFirstRowsAndTheirBiasFirst) {
  const ParameterArena arena = some_model();
  const Plan plan = make_plan(arena.parameters(), {});
  ASSERT_EQ(plan.buckets.size(), 10u);
  EXPECT_EQ(plan.buckets[0].name, "fc2.bias..fc1.bias");
  EXPECT_EQ(plan.buckets[1].name, "fc1.weight[0:512]");
  EXPECT_EQ(plan.buckets[8].name, "fc1.weight[3584:4096]");
  EXPECT_EQ(plan.buckets[8].offset - plan.buckets[1].offset, std::int64_t{3584} * 2048);
  EXPECT_EQ(plan.buckets[1].pieces, 16);
  EXPECT_EQ(plan.buckets[9].pieces, 12);
  EXPECT_EQ(plan.bucket_of, (std::vector<int>{0, 0, 0, 1, 9}));
  EXPECT_EQ(plan.chunk_rows(3), 512);
  EXPECT_EQ(plan.chunk_rows(4), 0);
  std::vector<std::string> by_priority(10);
  for (const Bucket& b : plan.buckets) by_priority[static_cast<std::size_t>(9 - b.priority)] = b.name;
  EXPECT_EQ(by_priority[0], "conv.weight");
  EXPECT_EQ(by_priority[1], "fc2.bias..fc1.bias");
  EXPECT_EQ(by_priority[2], "fc1.weight[0:512]");
  EXPECT_EQ(by_priority[9], "fc1.weight[3584:4096]");
  EXPECT_EQ(make_plan(arena.parameters(), {.chunk_bytes = 0}).buckets.size(), 3u);
  const std::string table = plan.table();
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;  // equal chunks are one line
  EXPECT_NE(table.find("fc1.weight[0:4096], 512 at a time"), std::string::npos) << table;
  EXPECT_NE(table.find("8 times"), std::string::npos) << table;
}

TEST(Plan, CutsAConvolutionOnlyWhenAsked) {
  const ParameterArena arena = some_model();
  PlanOptions options{.bucket_bytes = 0, .chunk_bytes = 1 << 20};
  const auto rows_of_convolution = [&] {
    std::vector<std::int64_t> rows;
    for (const Bucket& b : make_plan(arena.parameters(), options).buckets)
      if (b.name.starts_with("conv.weight")) rows.push_back(b.rows.count);
    return rows;
  };
  EXPECT_EQ(rows_of_convolution(), (std::vector<std::int64_t>{0}));
  options.chunk_convolutions = true;
  EXPECT_EQ(rows_of_convolution(), (std::vector<std::int64_t>{80, 80, 80, 16}));
}

TEST(Plan, HybridSendsConvolutionsAndSmallOnesByButterflyAndPrintedTheOtherWayRound) {
  const ParameterArena arena = some_model();
  for (const bool printed : {false, true}) {
    PlanOptions options = plan_options(printed ? "hybrid-printed" : "hybrid", "none", 4 << 20);
    const std::string small = printed ? "ring" : "butterfly";
    const std::string large = printed ? "butterfly" : "ring";
    for (const Bucket& b : make_plan(arena.parameters(), options).buckets)
      EXPECT_EQ(b.allreduce, b.name.find("fc1.weight") == 0 || b.name == "fc2.weight" ? large : small) << b.name;
  }
}

TEST(Plan, IsTheSameAfterWritingAndReading) {
  const ParameterArena arena = some_model();
  for (const char* allreduce : {"ring", "hierarchical:3", "ring-tree:3", "tree:2", "hybrid"})
    for (const char* fusion : {"none", "copy:1MiB", "lazy:64KiB"}) {
      const Plan plan = make_plan(arena.parameters(), plan_options(allreduce, fusion, 4 << 20));
      const Plan read = Plan::from_json(plan.json(), arena.parameters(), "here");
      EXPECT_EQ(read.json(), plan.json());
      EXPECT_EQ(read.table(), plan.table());
      EXPECT_EQ(read.bucket_of, plan.bucket_of);
      for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
        EXPECT_EQ(read.buckets[b].priority, plan.buckets[b].priority);
        EXPECT_EQ(read.buckets[b].offset, plan.buckets[b].offset);
        EXPECT_EQ(read.buckets[b].elements, plan.buckets[b].elements);
        EXPECT_EQ(read.buckets[b].copied, plan.buckets[b].copied);
      }
    }
}

TEST(Plan, ABadTextIsRefusedWithASentence) {
  const ParameterArena arena = some_model();
  const std::string good = make_plan(arena.parameters(), {}).json();
  const auto refusal = [&](const std::string& text) {
    try {
      Plan::from_json(text, arena.parameters(), "plan.json");
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(refusal(good), "taken");
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_NE(refusal(good.substr(0, n)), "taken") << n;
  for (const char* text :
       {"", "[]", "{}", "7", "{\"plan\":{}}", "{\"format\":1,\"buckets\":{}}", "{\"format\":1,\"buckets\":[]}",
        "{\"format\":1,\"buckets\":[7]}", "{\"format\":1,\"buckets\":[{\"parameters\":[]}]}"})
    EXPECT_EQ(refusal(text).find("plan: plan.json: "), 0u) << text << ": " << refusal(text);
  EXPECT_NE(with("\"format\":1", "\"format\":2").find("format is 2"), std::string::npos);
  EXPECT_NE(with("fc2.weight", "fc3.weight").find("'fc3.weight', this model has 'fc2.weight'"), std::string::npos);
  EXPECT_NE(with("[512,512]", "[512,511]").find("row 1023"), std::string::npos);
  EXPECT_NE(with("[0,512]", "[0,-512]").find("[0, -512]"), std::string::npos);
  EXPECT_NE(with("[3584,512]", "[3584,9223372036854775807]").find("go on with"), std::string::npos);
  EXPECT_NE(with("\"ring\"", "\"rink\"").find("no algorithm \"rink\""), std::string::npos);
  EXPECT_NE(with("\"pieces\":16", "\"pieces\":0").find("0 pieces"), std::string::npos);
}

TEST(Plan, OptionsAreReadAndWrongOnesRefused) {
  PlanOptions o = plan_options("hierarchical:4", "copy:25MB", 0);
  EXPECT_EQ(o.allreduce, "hierarchical:4");
  EXPECT_EQ(find_allreduce(o.allreduce)->group, 4);
  EXPECT_EQ(o.fusion, PlanOptions::Fusion::copy);
  EXPECT_EQ(o.bucket_bytes, 25'000'000u);
  EXPECT_EQ(to_string(PlanOptions{}), "ring, lazy:1MiB, chunks of 4MiB");
  set_fusion(o, "lazy:64KiB");
  EXPECT_EQ(o.bucket_bytes, 65536u);
  set_chunk(o, "none");
  EXPECT_EQ(o.chunk_bytes, 0u);
  for (const char* text : {"", "hierarchical", "hierarchical:", "hierarchical:0", "hierarchical:2x", "tree", "tree:1",
                           "ring-tree:1", "ring:2", "hybird"})
    EXPECT_THROW(set_allreduce(o, text), UsageError) << text;
  for (const char* text : {"", "lazy", "copy:", "copy:0", "lazy:-1", "lazy:1MX", "lazy:nan", "copy:1e30", "some:1MiB"})
    EXPECT_THROW(set_fusion(o, text), UsageError) << text;
  for (const char* text : {"", "0", "x", "-4MiB"}) EXPECT_THROW(set_chunk(o, text), UsageError) << text;
  EXPECT_EQ(overlap_named("backward"), Overlap::backward);
  EXPECT_THROW(overlap_named("forwards"), UsageError);
}

TEST(Plan, NamesTheNearestAlgorithm) {
  PlanOptions options;
  try {
    set_allreduce(options, "buterfly");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("butterfly"), std::string::npos);
  }
  set_allreduce(options, "ring");
  EXPECT_EQ(options.allreduce, "ring");
}

}  // namespace
}  // namespace laconic::dist
