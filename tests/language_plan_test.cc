// What of a language model travels how: by the roles of its parameters.
#include <gtest/gtest.h>

#include <map>

#include "dist/method/redsync/method.h"
#include "dist/plan/plan.h"
#include "layers/models/language_model.h"

namespace laconic::dist {
namespace {

/// The choice of every parameter, and in how many chunks its rows travel if in several.
std::map<std::string, std::string> travels(bool tied, bool quantised, std::size_t chunk_bytes,
                                           bool chunk_sparse = false) {
  models::LanguageModel model({.vocabulary = 1600, .hidden = 160, .tied = tied});
  model.name_all();
  const ParameterArena arena(model.parameters());
  const PlanOptions options{.chunk_bytes = chunk_bytes,
                            .chunk_sparse = chunk_sparse,
                            .sparse = dispatch_of(*sparse_method("redsync"), {.quantised = quantised})};
  const Plan plan = make_plan(arena.parameters(), options, 4);
  std::map<std::string, std::string> all;
  for (const auto& p : arena.parameters()) {
    int chunks = 0;
    for (const Bucket& b : plan.buckets) chunks += b.chunk() && b.first == p->info.index;
    const auto first = static_cast<std::size_t>(plan.bucket_of[static_cast<std::size_t>(p->info.index)]);
    all[p->info.name] = to_string(plan.buckets[first].choice) + (chunks ? concat(" in ", chunks) : "");
  }
  return all;
}

TEST(LanguagePlan, RedSyncSamplesTheSearchAndNeverQuantisesWhatMakesThePredictions) {
  const auto untied = travels(false, false, 0);
  for (const auto& [name, choice] : untied)
    EXPECT_EQ(choice, name.find("bias") != std::string::npos ? "all" : "sampled") << name;
  EXPECT_EQ(untied.size(), 11u);

  const auto signs = travels(false, true, 0);
  for (const auto& [name, choice] : signs)
    EXPECT_EQ(choice, name.find("bias") != std::string::npos ? "all"
                      : name == "decoder.weight"             ? "sampled"
                                                             : "search, signs")
        << name;

  const auto tied = travels(true, true, 0);
  EXPECT_EQ(tied.at("encoder.weight"), "sampled") << "it is the output layer's weight too";
  EXPECT_EQ(tied.at("rnn.weight_hh_l1"), "search, signs");
  EXPECT_EQ(tied.size(), 10u);
}

TEST(LanguagePlan, LargeWeightsTravelByRowsIfAsked) {
  EXPECT_EQ(travels(true, true, 256 << 10).at("encoder.weight"), "sampled") << "its message is one anyway";
  const auto tied = travels(true, true, 256 << 10, true);  // 400 rows of 160
  EXPECT_EQ(tied.at("encoder.weight"), "sampled in 4");
  EXPECT_EQ(tied.at("rnn.weight_ih_l0"), "search, signs in 2");
  EXPECT_EQ(tied.at("rnn.weight_hh_l0"), "search, signs in 2");
  EXPECT_EQ(tied.at("rnn.bias_ih_l0"), "all");
}

TEST(LanguagePlan, WhatTheNextForwardNeedsFirstGoesFirst) {
  models::LanguageModel model({.vocabulary = 1600, .hidden = 160});
  model.name_all();
  const ParameterArena arena(model.parameters());
  const Plan plan = make_plan(arena.parameters(), {.bucket_bytes = 0, .chunk_bytes = 256 << 10}, 4);
  std::map<int, std::string, std::greater<>> by_priority;
  for (const Bucket& b : plan.buckets) by_priority[b.priority] = b.name;
  std::vector<std::string> order;
  for (const auto& [priority, name] : by_priority) order.push_back(name);
  ASSERT_EQ(order.size(), plan.buckets.size()) << "no two alike";
  const std::vector<std::string> first(order.begin(), order.begin() + 11);
  EXPECT_EQ(first, (std::vector<std::string>{
                       "encoder.weight[0:400]", "encoder.weight[400:800]", "encoder.weight[800:1200]",
                       "encoder.weight[1200:1600]", "rnn.weight_ih_l0[0:400]", "rnn.weight_ih_l0[400:640]",
                       "rnn.bias_ih_l0", "rnn.weight_hh_l0[0:400]", "rnn.weight_hh_l0[400:640]", "rnn.bias_hh_l0",
                       "rnn.weight_ih_l1[0:400]"}));
}

}  // namespace
}  // namespace laconic::dist
