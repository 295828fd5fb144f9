#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace laconic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Schedule::Horizon kTwelveEpochs{.steps_per_epoch = 7, .total_steps = 84};

TEST(Schedule, AgreesWithPyTorchAtTheStartOfEveryEpoch) {
  const auto golden = nlohmann::json::parse(std::ifstream(LACONIC_SOURCE "/tests/golden/optim.json"));
  const auto metrics = golden["metrics"].get<std::vector<double>>();
  for (const auto& [text, rates] : golden["schedules"].items()) {
    Schedule s = Schedule::parse(text);
    for (int epoch = 0; epoch < 12; ++epoch) {
      EXPECT_NEAR(s.factor(epoch * 7, kTwelveEpochs), rates[static_cast<std::size_t>(epoch)].get<double>(), 1e-12)
          << text << ", epoch " << epoch;
      s.end_epoch(metrics[static_cast<std::size_t>(epoch)]);
    }
  }
  EXPECT_EQ(golden["schedules"].size(), 6u);
}

TEST(Schedule, CountsInEpochsOrInIterations) {
  const Schedule epochs = Schedule::parse("multistep:2,3,0.5"), iterations = Schedule::parse("multistep:14it,21it,0.5");
  const Schedule steps = Schedule::parse("step:2,0.5"), its = Schedule::parse("step:14it,0.5");
  for (int i = 0; i < 84; ++i) {
    EXPECT_EQ(epochs.factor(i, kTwelveEpochs), i < 14 ? 1 : i < 21 ? 0.5 : 0.25);
    EXPECT_EQ(iterations.factor(i, kTwelveEpochs), epochs.factor(i, kTwelveEpochs));
    EXPECT_EQ(steps.factor(i, kTwelveEpochs), std::pow(0.5, i / 14));
    EXPECT_EQ(its.factor(i, kTwelveEpochs), steps.factor(i, kTwelveEpochs));
  }
  EXPECT_DOUBLE_EQ(Schedule::parse("exp:0.9it").factor(5, kTwelveEpochs), std::pow(0.9, 5));
  EXPECT_DOUBLE_EQ(Schedule::parse("exp:0.9").factor(20, kTwelveEpochs), std::pow(0.9, 2));
  EXPECT_EQ(Schedule::parse("step:0.5,0.5").factor(3, kTwelveEpochs), 1);  // 3.5 iterations
  EXPECT_EQ(Schedule::parse("step:0.5,0.5").factor(4, kTwelveEpochs), 0.5);
}

/// Two epochs by one worker, of 12 updates each; then four workers go on, with 3 updates each.
TEST(Schedule, IterationsAreThoseOfTheWorkersThatBegan) {
  const Schedule::Horizon one{.steps_per_epoch = 12, .total_steps = 120},
      four{.steps_per_epoch = 3, .total_steps = 30, .iterations = 4};
  for (const char* text : {"step:8it,0.5", "multistep:20it,36it,0.5", "exp:0.9it", "warmup:20it+const",
                           "warmup:40it+cosine", "warmup:12it+cosine:0.1", "warmup:2+step:3,0.1"})
    for (int epoch = 2; epoch < 10; ++epoch) {
      const Schedule s = Schedule::parse(text);
      const double warming = epoch * 12 < 40 && std::string(text).starts_with("warmup:40") ? 3 / 40.0 : 0;
      EXPECT_NEAR(s.factor(3 * epoch, four), s.factor(12 * epoch, one) + warming, 1e-12) << text << ", " << epoch;
    }
  // 100 updates in all, of which one worker has made 24: the other 76 are steps of four.
  const Schedule::Horizon steps{.steps_per_epoch = 12, .total_steps = 100},
      others{.steps_per_epoch = 3, .total_steps = 100 - 18, .iterations = 4, .ahead = -18};
  const Schedule cosine = Schedule::parse("warmup:20it+cosine");
  for (int made = 24; made <= 100; ++made)
    EXPECT_NEAR(cosine.factor(made - 18, others), cosine.factor(made, steps), 1e-12);
}

TEST(Schedule, WarmsUpLinearlyInFrontOfAny) {
  const Schedule s = Schedule::parse("warmup:2+multistep:4,0.1");
  for (int i = 0; i < 14; ++i) EXPECT_DOUBLE_EQ(s.factor(i, kTwelveEpochs), (i + 1) / 14.0);
  EXPECT_EQ(s.factor(14, kTwelveEpochs), 1);
  EXPECT_EQ(s.factor(27, kTwelveEpochs), 1);
  EXPECT_EQ(s.factor(28, kTwelveEpochs), 0.1);  // epochs count from the start of the run
  EXPECT_DOUBLE_EQ(Schedule::parse("warmup:10it+const").factor(4, kTwelveEpochs), 0.5);
  EXPECT_DOUBLE_EQ(Schedule::parse("warmup:0.5+const").factor(0, kTwelveEpochs), 1 / 3.5);
}

TEST(Schedule, CosineFallsFromTheEndOfWarmUpToTheEndOfTraining) {
  const Schedule s = Schedule::parse("warmup:4it+cosine");
  EXPECT_DOUBLE_EQ(s.factor(3, kTwelveEpochs), 1);
  EXPECT_DOUBLE_EQ(s.factor(4, kTwelveEpochs), 1);
  EXPECT_NEAR(s.factor(44, kTwelveEpochs), 0.5, 1e-12);
  EXPECT_NEAR(s.factor(84, kTwelveEpochs), 0, 1e-12);
  for (int i = 4; i < 84; ++i) EXPECT_GT(s.factor(i, kTwelveEpochs), s.factor(i + 1, kTwelveEpochs));
  EXPECT_NEAR(s.factor(1000, kTwelveEpochs), 0, 1e-12);  // a run that goes on stays there
}

TEST(Schedule, CosineMayEndAboveZero) {
  const Schedule s = Schedule::parse("warmup:4it+cosine:0.2");
  EXPECT_DOUBLE_EQ(s.factor(4, kTwelveEpochs), 1);
  EXPECT_NEAR(s.factor(44, kTwelveEpochs), 0.6, 1e-12);
  EXPECT_NEAR(s.factor(84, kTwelveEpochs), 0.2, 1e-12);
}

TEST(Schedule, PlateauContinuesFromItsState) {
  const double metrics[] = {1, 2, 3, std::nan(""), 4, 0.5, 0.6, 0.7, 0.8};
  Schedule whole = Schedule::parse("plateau:1,0.5"), first = whole, second = whole;
  for (int e = 0; e < 9; ++e) {
    whole.end_epoch(metrics[e]);
    if (e < 4) first.end_epoch(metrics[e]);
  }
  StateDict state;
  first.save(state);
  second.load(state);
  for (int e = 4; e < 9; ++e) second.end_epoch(metrics[e]);
  EXPECT_EQ(whole.factor(0, kTwelveEpochs), 0.125);  // after 3; after 4; after 0.7
  EXPECT_EQ(second.factor(0, kTwelveEpochs), 0.125);
  EXPECT_TRUE(whole.needs_metric());
  EXPECT_FALSE(Schedule::parse("cosine").needs_metric());
}

TEST(Schedule, RefusesAStateThatCannotBe) {
  Schedule s = Schedule::parse("plateau:1,0.5");
  StateDict state;
  EXPECT_THROW(s.load(state), DataError);
  state.set("schedule", Tensor::of({2}, std::vector<std::int64_t>{0, 0}));
  EXPECT_THROW(s.load(state), DataError);
  state.set("schedule", Tensor::of({3}, std::vector<std::int64_t>{0, -1, 0}));
  EXPECT_THROW(s.load(state), DataError);
}

TEST(Schedule, SaysWhichPartIsWrong) {
  const auto error = [](const char* text) { return error_of<UsageError>([&] { Schedule::parse(text); }); };
  EXPECT_THAT(error("cosin"), AllOf(HasSubstr("no \"cosin\""), HasSubstr("Did you mean cosine?")));
  EXPECT_THAT(error("multstep:1,2"), HasSubstr("Did you mean multistep?"));
  EXPECT_THAT(error("step:30"), HasSubstr("Write it as step:EVERY,FACTOR (step:30,0.1)"));
  EXPECT_THAT(error("step:30,0.1,2"), HasSubstr("3 numbers"));
  EXPECT_THAT(error("step:x,0.1"), HasSubstr("\"x\" is no count"));
  EXPECT_THAT(error("step:0,0.1"), HasSubstr("above 0"));
  EXPECT_THAT(error("exp:-1"), HasSubstr("\"-1\" is no factor"));
  EXPECT_THAT(error("exp:nan"), HasSubstr("is no factor"));
  EXPECT_THAT(error("multistep:5,3,0.1"), HasSubstr("rising order"));
  EXPECT_THAT(error("multistep:5,30it,0.1"), HasSubstr("all with 'it' or none"));
  EXPECT_THAT(error("step:30,0.1it"), HasSubstr("cannot be in iterations"));
  EXPECT_THAT(error("step:1.5it,0.1"), HasSubstr("whole number"));
  EXPECT_THAT(error("plateau:5it,0.1"), HasSubstr("in epochs"));
  EXPECT_THAT(error("const:1"), HasSubstr("Write it as const"));
  EXPECT_THAT(error("warmup:5"), HasSubstr("nothing behind the warm-up"));
  EXPECT_THAT(error("warmup:+const"), HasSubstr("length of the warm-up"));
  for (const char* bad :
       {"", "+", "warmup:5+", "warmup:5+warmup:5+const", "step:", "step:,", "exp:", "exp", "cosine:", "it"})
    EXPECT_NE(error(bad), "") << bad;
}

TEST(Schedule, KeepsItsText) {
  EXPECT_EQ(Schedule().text(), "const");
  EXPECT_EQ(Schedule::parse("warmup:5+cosine").text(), "warmup:5+cosine");
}

}  // namespace
}  // namespace laconic
