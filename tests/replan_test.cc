// Automatic plans of a training: residual compression instead of sums, and another plan while it trains.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "dist/trainer/checkpoint.h"
#include "dist/trainer/plan_watch.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/tensors.h"
#include "tests/training.h"

namespace laconic {
namespace {

using namespace std::chrono_literals;

/// The first losses of each worker take long: those that layers are measured by. So steps are much shorter than
/// planned.
class SlowAtFirst final : public Passing {
 public:
  using Passing::Passing;
  Tensor loss() override {
    constexpr int kMeasured = 7;
    if (++losses_ <= kMeasured) std::this_thread::sleep_for(300ms);
    return Passing::loss();
  }

 private:
  int losses_ = 0;
};

Recipe automatic() {
  Recipe recipe(mixed, 2);
  recipe.data = tiny_images(50, 8);  // four steps an epoch
  recipe.task.batch = 8;
  recipe.trainer.optimizer.momentum = 0.9;
  recipe.trainer.lr = 0.02;
  recipe.trainer.eval_every = 0;
  recipe.trainer.plan_file = kAutomatic;
  return recipe;
}

dist::MethodChoice small_redsync() { return {"redsync", {{"density", "0.02"}, {"dense-below", "1KiB"}}}; }
dist::MethodChoice short_rounds() { return {"rounds", {{"every", "3"}}}; }

/// A cable over which a choice takes much less time than sums, if both wait for it (Overlap::none).
dist::LinkOptions slow_cable() { return {.all = {.bits_per_second = 10'000'000}}; }

std::string plan_in(const std::string& checkpoint) { return CheckpointStore::read_manifest(checkpoint).plan; }

/// A plan is replaced after ten steps and fifty periods, and the checkpoint of that step has the new one: who resumes
/// from it goes the way of who did not stop.
///   holds : a part of the new plan
void expect_a_replanned_training_resumes(Recipe recipe, const std::string& sync, int period = 1,
                                         const std::string& holds = "") {
  const int replaced = 10 + 50 * period, last = replaced + 8;
  TempFolder folder;
  recipe.trainer.replan = true;
  recipe.trainer.save = folder.path();
  recipe.trainer.save_every = Every{20, true};
  recipe.trainer.steps = last;
  Recipe straight = recipe;
  straight.wrap = [](std::unique_ptr<Workload> task, const dist::Worker&) {
    return std::make_unique<SlowAtFirst>(std::move(task));
  };
  const Outcome replanned = train(straight);
  ASSERT_EQ(replanned.contradictions.size(), 1u);
  EXPECT_LT(replanned.contradictions[0].step_ms, replanned.contradictions[0].expected_ms);
  ASSERT_EQ(replanned.plans.size(), 2u);
  EXPECT_EQ(replanned.plans[1].step, replaced);
  EXPECT_NE(replanned.plans[1].reason, "");
  for (const dist::Receipt& plan : replanned.plans) EXPECT_EQ(plan.sync, sync);
  const auto checkpoint_of = [&](int step) { return folder / fmt::format("checkpoint-{:012}", step); };
  const std::string checkpoint = checkpoint_of(replaced);
  EXPECT_EQ(plan_in(checkpoint), plan_in(checkpoint_of(last)));
  EXPECT_NE(plan_in(checkpoint).find(holds), std::string::npos) << plan_in(checkpoint);
  if (sync == "rounds") {  // what a round is measured against is not lost
    const std::vector<float> outer = CheckpointStore::read_rank(checkpoint, 0).at("strategy/rounds/outer").to_vector();
    EXPECT_TRUE(std::any_of(outer.begin(), outer.end(), [](float v) { return v != 0; }));
  }

  recipe.trainer.resume = checkpoint;
  recipe.trainer.save.clear(), recipe.trainer.save_every.reset();
  const Outcome resumed = train(recipe);
  EXPECT_TRUE(resumed.plans.empty());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(same_bits(resumed.parameters[rank], replanned.parameters[rank]));
    EXPECT_EQ(resumed.buffers[rank], replanned.buffers[rank]);
  }
}

TEST(Replan, ATrainingThatIsPlannedAnewResumesAsIfItHadNotStopped) {
  Recipe recipe = automatic();
  recipe.trainer.allowed = dist::Allowed::parse("16bit,bounded:rel:2^0", "allow");
  recipe.trainer.codec_feedback = true;
  recipe.trainer.accumulate = 2;  // two steps an epoch
  expect_a_replanned_training_resumes(recipe, "allreduce");
}

TEST(Replan, AMethodThatWasChosenStays) {
  Recipe recipe = automatic();
  recipe.trainer.allowed.methods = {small_redsync()};
  recipe.link = slow_cable(), recipe.trainer.overlap = dist::Overlap::none;
  expect_a_replanned_training_resumes(recipe, "redsync");
}

/// The checkpoint with the new plan is of the middle of a round.
TEST(Replan, ARoundGoesOnUnderAnotherPlan) {
  Recipe recipe = automatic();
  recipe.trainer.allowed.methods = {short_rounds()};
  recipe.link = {.all = {.bits_per_second = 40'000'000}}, recipe.trainer.overlap = dist::Overlap::none;
  expect_a_replanned_training_resumes(recipe, "rounds", 3);
}

TEST(Replan, ARoundThroughACodecGoesOnUnderAnotherPlan) {
  Recipe recipe = automatic();
  recipe.trainer.allowed = dist::Allowed::parse("16bit", "allow");
  recipe.trainer.allowed.methods = {short_rounds()};
  recipe.trainer.codec_feedback = true;
  recipe.link = slow_cable(), recipe.trainer.overlap = dist::Overlap::none;
  expect_a_replanned_training_resumes(recipe, "rounds", 3, "\"codec\"");
}

TEST(Replan, OnlyAnAutomaticPlanIsReplaced) {
  Recipe recipe = automatic();
  recipe.trainer.plan_file.clear();
  recipe.trainer.replan = true;
  expect_error<UsageError>([&] { train(recipe); }, {"only `plan` auto", "`replan`"});
}

TEST(Replan, TheMedianOfFiftyStepsContradicts) {
  const auto contradicted_at = [](std::optional<double> expected, auto step_ms, std::int64_t period = 1) {
    PlanWatch watch(expected, period);
    for (int step = 1; step <= 300; ++step)
      if (watch.add(step_ms(step))) return step;
    return 0;
  };
  const auto always = [](double ms) { return [ms](int step) { return step <= 10 ? 1000 : ms; }; };
  EXPECT_EQ(contradicted_at(10, always(11.9)), 0);
  EXPECT_EQ(contradicted_at(10, always(8.1)), 0);
  EXPECT_EQ(contradicted_at(10, always(13)), 60);
  EXPECT_EQ(contradicted_at(10, always(7)), 60);
  EXPECT_EQ(contradicted_at(10, [](int step) { return step % 50 < 20 ? 100.0 : 10.0; }), 0) << "the median";
  EXPECT_EQ(contradicted_at({}, always(13)), 0) << "what they take is what is expected";
  EXPECT_EQ(contradicted_at({}, [](int step) { return step <= 60 ? 10.0 : 20.0; }), 110);
  const auto exchange = [](double ms) { return [ms](int step) { return step % 4 == 0 ? ms : 1.0; }; };
  EXPECT_EQ(contradicted_at(10, exchange(37), 4), 0) << "the mean of a period";
  EXPECT_EQ(contradicted_at(10, exchange(67), 4), 210);
  PlanWatch watch(10);
  for (int step = 1; step <= 300; ++step) EXPECT_EQ(watch.add(20).has_value(), step == 60) << "once";
}

/// As if the method, its settings and the plan had been given by hand.
TEST(AllowedChoice, GivesTheBitsOfItsMethodAndResumes) {
  for (const dist::MethodChoice& choice : {small_redsync(), short_rounds()}) {
    SCOPED_TRACE(choice.method->name());
    TempFolder folder;
    Recipe recipe = automatic();
    recipe.link = slow_cable(), recipe.trainer.overlap = dist::Overlap::none;
    recipe.trainer.allowed.methods = {choice};
    recipe.trainer.save = folder.path();
    recipe.trainer.steps = 10;  // not the end of a round
    const Outcome chosen = train(recipe);
    ASSERT_EQ(chosen.plans.size(), 1u);
    EXPECT_EQ(chosen.plans[0].sync, choice.method->name());
    EXPECT_EQ(chosen.plans[0].settings, choice.settings);
    EXPECT_GE(chosen.plans[0].candidates.size(), 2u);

    Recipe by_hand = recipe;
    by_hand.link.reset();
    by_hand.trainer.save.clear(), by_hand.trainer.allowed = {};
    by_hand.trainer.plan_file = folder / "checkpoint-000000000010/manifest.json";
    expect_error<UsageError>([&] { train(by_hand); }, {"was made for `sync` " + choice.method->name()});
    by_hand.sync = choice.method->name(), by_hand.settings = choice.settings;
    EXPECT_TRUE(same_bits(train(by_hand).parameters[0], chosen.parameters[0]));

    Recipe resumed = recipe;
    resumed.trainer.steps = 20, resumed.trainer.resume = folder.path(), resumed.trainer.save.clear();
    const Outcome went_on = train(resumed);
    EXPECT_TRUE(went_on.plans.empty());
    by_hand.trainer.steps = 20;
    EXPECT_TRUE(same_bits(train(by_hand).parameters[0], went_on.parameters[0]));

    resumed.trainer.allowed.methods = {choice.method->name() == "rounds" ? small_redsync() : short_rounds()};
    expect_error<DataError>([&] { train(resumed); }, {"allow=sums, " + choice.method->name()});
    dist::MethodChoice::Settings others = choice.settings;
    others[0].second = "1";  // the density, the steps of a round
    resumed.trainer.allowed.methods = {{choice.method->name(), others}};
    expect_error<DataError>([&] { train(resumed); }, {"allow=sums, " + choice.method->name()});
  }
}

TEST(AllowedChoice, IsHeldAgainstTheTraining) {
  Recipe recipe = automatic();
  recipe.trainer.allowed.methods = {small_redsync()};
  recipe.trainer.optimizer.name = "adam";
  expect_error<UsageError>([&] { train(recipe); }, {"`allow` may take `sync` redsync", "`optimizer`"});
}

}  // namespace
}  // namespace laconic
