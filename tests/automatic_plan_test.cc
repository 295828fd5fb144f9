// Automatic plans of a training: residual compression, or rounds, instead of sums.
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/tensors.h"
#include "tests/training.h"

namespace laconic {
namespace {

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
