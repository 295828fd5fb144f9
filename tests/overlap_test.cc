// Training under every overlap, fusion and algorithm: the same bits on all ranks, and over overlaps for an equal plan.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

using dist::Overlap;

constexpr Overlap kOverlaps[] = {Overlap::none, Overlap::backward, Overlap::forward};
const char* const kFusions[] = {"none", "lazy:2KiB", "lazy:1MiB", "copy:2KiB", "copy:1MiB"};
const char* const kAlgorithms[] = {"ring",        "butterfly", "doubling", "hierarchical:2",
                                   "ring-tree:2", "tree:2",    "hybrid",   "hybrid-printed"};
const char* const kChunks[] = {"8KiB", "none"};  // 16 rows of `large`, one chunk short of all of the tied one

struct Extra {
  const char* name;
  std::function<void(Recipe&)> set;
};

struct Codec {
  const char* name;
  bool feedback = false;
};

/// The loss of the last rank is not a number at its sixth load.
struct PoisonAtTheSixth final : Passing {
  using Passing::Passing;
  Share load() override {
    ++loads;
    return Passing::load();
  }
  Tensor loss() override {
    Tensor loss = Passing::loss();
    if (loads == 6) loss.value().data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    return loss;
  }
  int loads = 0;
};

std::unique_ptr<Workload> poison_the_last(std::unique_ptr<Workload> task, const dist::Worker& worker) {
  if (worker.rank != worker.size - 1) return task;
  return std::make_unique<PoisonAtTheSixth>(std::move(task));
}

/// Parameters from 1 KiB on send one element in fifty.
void choose_some(Recipe& r, const char* sync, std::vector<std::pair<std::string, std::string>> settings = {}) {
  r.choose(sync, "1024", "0.02", std::move(settings));
}

const Extra kExtras[] = {
    {"plain", [](Recipe&) {}},
    {"clip norm", [](Recipe& r) { r.trainer.clip = Clip::parse("norm:0.5"); }},
    {"clip value", [](Recipe& r) { r.trainer.clip = Clip::parse("value:0.01"); }},
    {"accumulated", [](Recipe& r) { r.trainer.accumulate = 2; }},
    {"adam", [](Recipe& r) { r.trainer.optimizer = {.name = "adam"}, r.trainer.lr = 0.01; }},
    {"not-a-number passed over",
     [](Recipe& r) {
       r.trainer.skip_nan = true;
       r.wrap = poison_the_last;
     }},
    {"redsync", [](Recipe& r) { choose_some(r, "redsync"); }},
    {"redsync of one sign, accumulated",
     [](Recipe& r) {
       choose_some(r, "redsync", {{"selector", "exact"}, {"qrgc", ""}});
       r.trainer.accumulate = 2;
     }},
    {"redsync of sums, clipped, first dense, with a ledger",
     [](Recipe& r) {
       choose_some(r, "redsync", {{"warmup", "dense:1"}});
       r.trainer.mean = false, r.trainer.lr = 0.01, r.trainer.clip = Clip::parse("norm:0.5");
       r.trainer.ledger_every = 2;
     }},
    {"dgc, packed, not-a-number passed over",
     [](Recipe& r) {
       choose_some(r, "dgc", {{"index-coding", "delta"}}), r.trainer.skip_nan = true;
       r.wrap = poison_the_last;
     }},
    {"topk with adam",
     [](Recipe& r) { choose_some(r, "topk"), r.trainer.optimizer = {.name = "adam"}, r.trainer.lr = 0.01; }},
    {"strom",
     [](Recipe& r) {
       choose_some(r, "strom", {{"threshold", "0.01"}});
     }},
    {"ef21 of sums, clipped, accumulated",
     [](Recipe& r) {
       choose_some(r, "ef21");
       dist::PlanOptions& plan = r.trainer.plan;
       if (plan.fusion == dist::PlanOptions::Fusion::copy) plan.fusion = dist::PlanOptions::Fusion::lazy;  // refused
       r.trainer.mean = false, r.trainer.clip = Clip::parse("norm:0.5"), r.trainer.accumulate = 2;
     }},
    {"sum", [](Recipe& r) { r.trainer.mean = false, r.trainer.lr = 0.02; }},
};

/// 50 images in batches of 8 per worker: with 4 workers two are empty in the last batch of an epoch.
Recipe recipe_of(int workers, const char* allreduce, const char* fusion, const char* chunk) {
  Recipe recipe(mixed, workers);
  recipe.data = tiny_images(50, 8);
  recipe.task.batch = 8;
  recipe.trainer.optimizer.momentum = 0.9;
  recipe.trainer.lr = 0.02;
  dist::set_allreduce(recipe.trainer.plan, allreduce);
  dist::set_fusion(recipe.trainer.plan, fusion);
  dist::set_chunk(recipe.trainer.plan, chunk);
  return recipe;
}

template <std::size_t n, class T>
T& pick(T (&list)[n], std::size_t i) {
  return list[i % n];
}

/// Every two of workers, algorithm, fusion, chunks, codec and extra meet in some row; each row runs all overlaps.
void expect_equal_bits_of_all(const std::vector<Extra>& extras, const std::vector<Codec>& codecs) {
  for (const auto& row : combinations(
           {4, std::size(kAlgorithms), std::size(kFusions), std::size(kChunks), codecs.size(), extras.size()})) {
    const int workers = static_cast<int>(row[0]) + 1;
    const Codec& codec = codecs[row[4]];
    const Extra& extra = extras[row[5]];
    Recipe recipe = recipe_of(workers, kAlgorithms[row[1]], kFusions[row[2]], kChunks[row[3]]);
    extra.set(recipe);
    dist::set_codec(recipe.trainer.plan, codec.name);
    recipe.trainer.codec_feedback = codec.feedback;
    SCOPED_TRACE(concat(workers, " workers, ", kAlgorithms[row[1]], ", ", kFusions[row[2]], ", chunks ",
                        kChunks[row[3]], ", ", extra.name, ", codec ", codec.name,
                        codec.feedback ? " with feedback" : ""));
    Outcome first;
    for (const Overlap overlap : kOverlaps) {
      recipe.trainer.overlap = overlap;
      const Outcome outcome = train(recipe);  // audited after every step
      for (const auto& parameters : outcome.parameters)
        ASSERT_TRUE(same_bits(parameters, outcome.parameters[0])) << to_string(overlap);
      if (overlap == kOverlaps[0]) first = outcome;
      ASSERT_TRUE(same_bits(outcome.parameters[0], first.parameters[0])) << to_string(overlap);
      EXPECT_EQ(outcome.buffers, first.buffers);
      EXPECT_EQ(outcome.evals.back().loss, first.evals.back().loss);
      for (const float v : outcome.parameters[0]) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

/// Those of kExtras that send all gradients, or those that send a choice: these have no codec.
std::vector<Extra> extras_that_send(bool all) {
  std::vector<Extra> some;
  for (const Extra& extra : kExtras) {
    Recipe recipe = recipe_of(1, "ring", "none", "none");
    extra.set(recipe);
    if ((recipe.sync == "allreduce") == all) some.push_back(extra);
  }
  return some;
}

TEST(Overlap, AnEqualPlanTrainsToTheSameBitsOnAllRanksWithEveryOverlap) {
  expect_equal_bits_of_all(extras_that_send(true), {{"none"},
                                                    {"identity"},
                                                    {"inceptionn:2^-12"},
                                                    {"inceptionn:rel:2^-1", true},
                                                    {"fp16", true},
                                                    {"qsgd:12:512"},
                                                    {"bf16"}});
}

TEST(Overlap, AnEqualPlanWithAChoiceTrainsToTheSameBitsOnAllRanksWithEveryOverlap) {
  expect_equal_bits_of_all(extras_that_send(false), {{"none"}});
}

TEST(Overlap, ChunksChangeNothingButTheLastBits) {
  for (const int workers : {2, 3})
    for (const Extra& extra : kExtras) {
      SCOPED_TRACE(extra.name);
      Recipe whole = recipe_of(workers, "ring", "lazy:1MiB", "none"),
             chunks = recipe_of(workers, "ring", "lazy:1MiB", "8KiB");
      extra.set(whole), extra.set(chunks);
      if (whole.sync != "allreduce") continue;               // other last bits choose other elements
      if (whole.trainer.optimizer.name == "adam") continue;  // its first steps divide rounding errors by themselves
      EXPECT_LT(relative_difference(train(whole).parameters[0], train(chunks).parameters[0]), 1e-4);
    }
}

TEST(Overlap, ChunksOfOneWeightReallyTravelAlone) {
  dist::on_ranks(2, [](dist::Worker& worker) {
    const Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "8KiB");
    ImageClassification task(mixed(), recipe.data, worker.rank, worker.size, recipe.task);
    const Trainer trainer(worker, task, recipe.trainer);
    int large = 0, tied = 0;
    for (const dist::Bucket& b : trainer.plan().buckets) {
      large += b.name.starts_with("large.weight[");
      tied += b.chunk() && !b.name.starts_with("large");
    }
    EXPECT_EQ(large, 4);
    EXPECT_GE(tied, 2);
  });
}

/// What recurrent layers and a tied embedding do with every extra, in 16-row chunks and whole.
TEST(Overlap, RecurrentAndTiedWeightsTrainToTheSameBitsWithEveryOverlap) {
  std::size_t row = 0;
  for (const Extra& extra : kExtras) {
    const int workers = static_cast<int>(row % 3) + 2;
    Recipe recipe = recipe_of(workers, pick(kAlgorithms, row), pick(kFusions, row / 2), row % 4 == 3 ? "none" : "2KiB");
    SCOPED_TRACE(concat(extra.name, ", row ", row++));
    recipe.model = reading;
    extra.set(recipe);
    Outcome first;
    for (const Overlap overlap : kOverlaps) {
      recipe.trainer.overlap = overlap;
      const Outcome outcome = train(recipe);  // audited after every step
      if (overlap == kOverlaps[0]) first = outcome;
      for (const auto& parameters : outcome.parameters)
        ASSERT_TRUE(same_bits(parameters, first.parameters[0])) << to_string(overlap);
      for (const float v : outcome.parameters[0]) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Overlap, ChunksOfRecurrentAndTiedWeightsChangeNothingButTheLastBits) {
  Recipe whole = recipe_of(2, "ring", "lazy:1MiB", "none"), chunks = recipe_of(2, "ring", "lazy:1MiB", "2KiB");
  whole.model = chunks.model = reading;
  EXPECT_LT(relative_difference(train(whole).parameters[0], train(chunks).parameters[0]), 1e-4);
  dist::on_ranks(2, [&](dist::Worker& worker) {
    ImageClassification task(reading(), chunks.data, worker.rank, worker.size, chunks.task);
    const Trainer trainer(worker, task, chunks.trainer);
    std::map<std::string, int> of;
    for (const dist::Bucket& b : trainer.plan().buckets)
      if (b.chunk()) ++of[b.name.substr(0, b.name.find('['))];
    EXPECT_EQ(of, (std::map<std::string, int>{{"encoder.weight", 3},
                                              {"lstm.weight_ih_l0", 8},
                                              {"lstm.weight_hh_l0", 8},
                                              {"gru.weight_ih_l0", 6},
                                              {"gru.weight_hh_l0", 6}}));
  });
}

TEST(Overlap, NoExchangeTrainsWithChunkOptionsToo) {
  Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "8KiB");
  recipe.sync = "none", recipe.trainer.audit_every = 0;
  const auto a = train(recipe).parameters;
  dist::set_chunk(recipe.trainer.plan, "none");
  const auto b = train(recipe).parameters;
  for (std::size_t r = 0; r < a.size(); ++r) EXPECT_TRUE(same_bits(a[r], b[r]));
}

TEST(StoredPlan, AResumedRunUsesItWhateverTheOptionsSay) {
  Recipe recipe = recipe_of(3, "butterfly", "lazy:2KiB", "8KiB");
  const Outcome straight = train(recipe);
  TempFolder folder;
  recipe.trainer.save = folder.path();
  recipe.trainer.steps = 4;
  train(recipe);
  recipe.trainer.resume = folder.path();
  recipe.trainer.steps.reset();
  recipe.trainer.plan = {};
  recipe.trainer.overlap = Overlap::backward;
  ::testing::internal::CaptureStderr();
  const Outcome resumed = train(recipe);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(same_bits(resumed.parameters[0], straight.parameters[0]));
  EXPECT_NE(said.find("laconic: note: messages travel by the plan that is stored in"), std::string::npos) << said;
}

TEST(StoredPlan, ACodecAndWhatItHasLostAreTakenUpAgain) {
  Recipe recipe = recipe_of(3, "ring", "lazy:2KiB", "8KiB");
  dist::set_codec(recipe.trainer.plan, "inceptionn:2^-6");
  const Outcome without = train(recipe);
  recipe.trainer.codec_feedback = true;
  const Outcome straight = train(recipe);
  EXPECT_FALSE(same_bits(straight.parameters[0], without.parameters[0]));
  TempFolder folder;
  recipe.trainer.save = folder.path();
  recipe.trainer.steps = 4;
  train(recipe);
  recipe.trainer.resume = folder.path();
  recipe.trainer.steps.reset();
  recipe.trainer.plan = {};  // the stored one has the codec
  ::testing::internal::CaptureStderr();
  const Outcome resumed = train(recipe);
  ::testing::internal::GetCapturedStderr();
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(same_bits(resumed.parameters[r], straight.parameters[0]));
}

/// The file with the plan of what was saved there.
std::string manifest_in(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().filename() == "manifest.json") return entry.path();
  return "";
}

/// Measuring comes before training and leaves nothing behind: neither in weights and running statistics, nor in the
/// data.
TEST(StoredPlan, AnAutomaticOneGivesTheBitsOfItsFile) {
  TempFolder folder;
  Recipe recipe = recipe_of(3, "ring", "lazy:1MiB", "none");
  recipe.trainer.plan_file = kAutomatic;
  recipe.trainer.allowed = dist::Allowed::parse("16bit,bounded:rel:2^0", "allow");
  recipe.trainer.codec_feedback = true;
  recipe.trainer.save = folder.path();
  const Outcome chosen = train(recipe);
  recipe.trainer.save.clear();
  recipe.trainer.plan_file = manifest_in(folder.path());
  recipe.trainer.codec_feedback = false;
  ASSERT_NE(recipe.trainer.plan_file, "");
  recipe.trainer.codec_feedback = file_text(recipe.trainer.plan_file).find("\"codec\"") != std::string::npos;
  const Outcome by_file = train(recipe);
  EXPECT_TRUE(same_bits(chosen.parameters[0], by_file.parameters[0]));
  EXPECT_EQ(chosen.buffers[0], by_file.buffers[0]);
}

TEST(StoredPlan, AResumedAutomaticOneIsNotChosenAgain) {
  TempFolder folder;
  Recipe recipe = recipe_of(3, "ring", "lazy:1MiB", "none");
  recipe.trainer.plan_file = kAutomatic;
  recipe.trainer.save = folder.path();
  recipe.trainer.steps = 4;
  train(recipe);
  Recipe straight = recipe;
  straight.trainer.plan_file = folder / "plan.json";
  std::filesystem::copy(manifest_in(folder.path()), straight.trainer.plan_file);
  straight.trainer.steps.reset();
  straight.trainer.save.clear();
  recipe.trainer.resume = folder.path();
  recipe.trainer.steps.reset();
  EXPECT_TRUE(same_bits(train(recipe).parameters[0], train(straight).parameters[0]));
}

/// Nobody says what the network is like: it is measured.
TEST(StoredPlan, WhatIsChosenAutomaticallyFollowsTheNetwork) {
  const auto some_are_chosen = [](dist::LinkSpec link) {
    TempFolder folder;
    Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "none");
    choose_some(recipe, "redsync", {{"selector", "auto"}});
    recipe.link = dist::LinkOptions{.all = link};
    recipe.trainer.save = folder.path();
    recipe.trainer.steps = 1;
    train(recipe);
    return file_text(manifest_in(folder.path())).find("exact") != std::string::npos;
  };
  using namespace std::chrono_literals;
  EXPECT_TRUE(some_are_chosen({.bits_per_second = 10'000'000}));
  EXPECT_FALSE(some_are_chosen({.bits_per_second = 10'000'000'000, .latency = 20ms}))
      << "a message costs more than bytes";
}

TEST(StoredPlan, OnlyAllreduceIsPlannedAutomatically) {
  Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "none");
  recipe.trainer.plan_file = kAutomatic;
  choose_some(recipe, "redsync");
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`plan` auto chooses for `sync` allreduce"),
            std::string::npos);
  recipe = recipe_of(1, "ring", "lazy:1MiB", "none");  // nothing travels
  const auto usual = train(recipe).parameters[0];
  recipe.trainer.plan_file = kAutomatic;
  EXPECT_TRUE(same_bits(train(recipe).parameters[0], usual));
}

TEST(StoredPlan, ACodecIsForSumsOfFloats) {
  Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "none");
  dist::set_codec(recipe.trainer.plan, "fp16");
  choose_some(recipe, "redsync");
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`codec`"), std::string::npos);
  recipe = recipe_of(2, "ring", "lazy:1MiB", "none");
  recipe.trainer.codec_feedback = true;
  EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`codec-feedback`"), std::string::npos);
}

TEST(StoredPlan, AFileSaysWhatTravelsHow) {
  TempFolder folder;
  const std::string path = folder / "plan.json";
  std::string json;
  dist::on_ranks(3, [&](dist::Worker& worker) {
    const Recipe recipe = recipe_of(3, "butterfly", "copy:2KiB", "8KiB");
    ImageClassification task(mixed(), recipe.data, worker.rank, worker.size, recipe.task);
    const Trainer trainer(worker, task, recipe.trainer);
    if (worker.rank == 0) json = trainer.plan().json();
  });
  std::ofstream(path) << "{\"plan\": " << json << "}";
  Recipe recipe = recipe_of(3, "ring", "lazy:1MiB", "none");
  const auto other = train(recipe).parameters[0];
  recipe.per_rank = [&](TrainerOptions& o, int rank) { o.plan_file = rank == 0 ? path : "only rank 0 reads it"; };
  const auto by_file = train(recipe).parameters[0];
  EXPECT_TRUE(same_bits(by_file, train(recipe_of(3, "butterfly", "copy:2KiB", "8KiB")).parameters[0]));
  EXPECT_FALSE(same_bits(by_file, other));

  std::ofstream(path) << "{\"plan\": 7}";
  EXPECT_NE(error_of<DataError>([&] { train(recipe); }).find("plan: " + path), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(error_of<DataError>([&] { train(recipe); }).find("cannot read " + path), std::string::npos);
}

TEST(StoredPlan, AnotherStrategysIsRefused) {
  TempFolder folder;
  const std::string path = folder / "plan.json";
  Recipe recipe = recipe_of(2, "ring", "lazy:1MiB", "none");
  choose_some(recipe, "redsync");
  dist::on_ranks(1, [&](dist::Worker& worker) {
    ImageClassification task(mixed(), recipe.data, 0, 1, recipe.task);
    std::ofstream(path) << Trainer(worker, task, recipe.method(), recipe.trainer).plan().json();
  });
  recipe.trainer.plan_file = path;
  train(recipe);
  for (const char* sync : {"allreduce", "topk"}) {
    recipe.sync = sync, recipe.settings.clear();
    EXPECT_NE(error_of<UsageError>([&] { train(recipe); }).find("`plan`"), std::string::npos) << sync;
  }
}

}  // namespace
}  // namespace laconic
