#include "apps/compare/compare.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "apps/bench/layers.h"
#include "apps/launch/child_process.h"
#include "apps/compare/bound.h"
#include "apps/compare/learning.h"
#include "apps/compare/table.h"
#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"
#include "core/base/error.h"
#include "dist/trainer/layer_stopwatch.h"
#include "tests/error_of.h"
#include "tests/program.h"

namespace laconic {
namespace {

using dist::Overlap;

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

LoggedStep logged(double ms, double exposed_ms, double sent, double dense, int epoch = 0) {
  LoggedStep step{.step = 0, .epoch = static_cast<double>(epoch), .loss = 0, .lr = 0, .step_ms = ms, .bytes_sent = sent,
                  .bytes_sent_sum = 0, .bytes_dense = dense, .parts = {}};
  step.parts.back() = exposed_ms;
  return step;
}

Trial trial(const std::vector<double>& ms, double accuracy = 0, std::optional<double> loss = 1) {
  Trial t;
  t.model = "lenet";
  for (double m : ms) t.steps.push_back(logged(m, m / 2, 1000, 4000));
  if (accuracy > 0) t.evaluations = {{1, accuracy / 2, 9}, {2, accuracy, loss}};
  return t;
}

std::optional<std::string> value_of(const std::vector<std::string>& words, const std::string& option) {
  const auto values = values_of(words, option);
  return values.empty() ? std::nullopt : std::optional(values.back());
}

std::string error_in(const std::vector<std::string>& arguments) {
  return error_of<UsageError>([&] { parse_compare(arguments); });
}

TEST(CompareOptions, OwnOptionsMayStandAnywhereAndTheRestIsTheAppsInItsOrder) {
  const CompareOptions o = parse_compare(
      {"--repeat=3", "mnist", "--data", "a b", "--vs", "ring: --allreduce ring --lr '0.1'", "--workers", "2", "--vs",
       "--allreduce butterfly", "--seed", "7", "--launch", "2", "--vs", "", "--through", "env A=b"});
  EXPECT_EQ(o.app, "mnist");
  EXPECT_EQ(o.common, (std::vector<std::string>{"--data", "a b", "--workers", "2", "--seed", "7"}));
  ASSERT_EQ(o.sets.size(), 3u);
  EXPECT_EQ(o.sets[0].label, "ring");
  EXPECT_EQ(o.sets[0].words, (std::vector<std::string>{"--allreduce", "ring", "--lr", "0.1"}));
  EXPECT_EQ(o.sets[1].label, "--allreduce butterfly");
  EXPECT_EQ(o.sets[2].label, "as is");
  EXPECT_EQ(o.repeat, 3);
  EXPECT_EQ(o.seed, 7u);
  EXPECT_EQ(join(command_of(o, o.sets[0], "/bin/mnist", "/bin/laconic", 8, "l.jsonl"), " "),
            "env A=b /bin/laconic launch -n 2 /bin/mnist --data a b --workers 2 --seed 7 --allreduce ring --lr 0.1 "
            "--seed 8 --log l.jsonl "
            "--quiet --json");
}

TEST(CompareTable, OtherProgramsReadItsFigures) {
  std::vector<Row> rows = summarise({{trial({10, 10, 10, 10, 10, 10}, 90), trial({12, 12, 12, 12, 12, 12}, 92)},
                                     {trial({20, 20, 20, 20, 20, 20}, 80), trial({24, 24, 24, 24, 24, 24}, 80)}},
                                    0, std::nullopt);
  rows[0].label = "a, \"b\"", rows[1].label = "50 % & _x";
  TableHead head;
  head.repeat = 2, head.seed = 7;
  const auto seeds = nlohmann::json::parse(table_json(head, rows))["sets"][0]["seeds"];
  ASSERT_EQ(seeds.size(), 2u);
  EXPECT_EQ(seeds[1]["seed"], 8);
  EXPECT_EQ(seeds[1]["step_ms"], 12);
  EXPECT_EQ(seeds[1]["accuracy"], 92);
}

TEST(CompareOptions, ValuesWithAColonAreNoLabels) {
  EXPECT_EQ(parse_compare({"mnist", "--vs", "--fusion lazy: 1"}).sets[0].words.size(), 3u);
  EXPECT_EQ(parse_compare({"mnist", "--vs", "--clip norm:5"}).sets[0].label, "--clip norm:5");
}

TEST(CompareOptions, APresetOfHowGradientsTravelIsASetAndOneOfHyperParametersIsForAll) {
  using Words = std::vector<std::string>;
  const CompareOptions o = parse_compare({"mnist", "--preset", "inceptionn-hdc", "--steps", "200", "--preset",
                                          "WA,INC+C", "--vs", "mine: --preset INC --tos none"});
  ASSERT_EQ(o.sets.size(), 3u);
  EXPECT_EQ(o.sets[0].label, "WA");
  EXPECT_EQ(o.sets[0].words, (Words{"--sync", "ps"}));
  EXPECT_EQ(o.sets[1].label, "INC+C");
  EXPECT_EQ(o.sets[1].words, (Words{"--sync", "allreduce", "--allreduce", "ring", "--codec", "inceptionn:2^-10"}));
  EXPECT_EQ(o.sets[2].words, (Words{"--sync", "allreduce", "--allreduce", "ring", "--tos", "none"}));
  EXPECT_EQ(value_of(o.common, "--batch"), "25");
  EXPECT_EQ(value_of(o.common, "--steps"), "200");  // what is given stands last
  // For the app they are defaults, so that a set may take another optimiser, which knows no --momentum.
  const std::string command = join(command_of(o, o.sets[2], "mnist", "laconic", 1, "l"), " ");
  EXPECT_NE(command.find("mnist --preset inceptionn-hdc --steps 200 --sync allreduce"), std::string::npos) << command;
  EXPECT_EQ(value_of(parse_compare({"mnist", "--preset=inceptionn-hdc,INC", "--epochs", "2"}).common, "--steps"),
            std::nullopt);
  EXPECT_THROW(parse_compare({"mnist", "--preset", "INK"}), UsageError);
}

TEST(CompareOptions, SayWhatIsWrong) {
  EXPECT_EQ(error_in({}).rfind("the program is missing (compare): ", 0), 0u);
  EXPECT_EQ(error_in({"mnist"}).rfind("there is nothing to compare (compare): ", 0), 0u);
  EXPECT_EQ(error_in({"--bogus", "mnist"}).rfind("unknown option '--bogus' (compare): ", 0), 0u);
  EXPECT_EQ(error_in({"--repet", "2", "mnist"}).rfind("unknown option '--repet' (compare): did you mean --repeat? ", 0),
            0u);
  EXPECT_EQ(error_in({"mnist", "--vs", "--log x"}).rfind("--log has no place here (--vs '--log x'): ", 0), 0u);
  EXPECT_EQ(error_in({"mnist", "--vs", "a: --seed 3"}).rfind("--seed has no place here (--vs a): ", 0), 0u);
  EXPECT_EQ(error_in({"mnist", "--vs", "a: --lr 1", "--vs", "a: --lr 2"}).rfind("two sets are called 'a' (--vs): ", 0),
            0u);
  EXPECT_EQ(error_in({"mnist", "--vs", "butterfly"}).rfind("'butterfly' belongs to no option ", 0), 0u);
  EXPECT_EQ(error_in({"mnist", "--repeat", "0"}).rfind("'0' is not a whole number of at least 1 (--repeat): ", 0), 0u);
  EXPECT_EQ(error_in({"mnist", "--vs", "a: --data 'x"}).rfind("a quote is not closed", 0), 0u);
  EXPECT_EQ(error_in({"mnist", "--json=no", "--vs", ""}).rfind("'--json=no' has a value, and --json takes none ", 0),
            0u);
  for (const char* idle : {"--warm-up=3", "--rate=1gbit", "--no-bound"})
    EXPECT_EQ(error_in({"mnist", "--learn", "5", idle, "--vs", ""}).rfind("--learn times whole epochs ", 0), 0u)
        << idle;
}

TEST(CompareOptions, EachSeedHasFilesOfItsOwn) {
  const CompareOptions o =
      parse_compare({"gpt", "--repeat", "2", "--trace=t.json", "--export", "w", "--vs", "--save s"});
  EXPECT_EQ(join(command_of(o, o.sets[0], "gpt", "laconic", 3, "LOG"), " "),
            "gpt --trace=t-seed3.json --export w-seed3 --save s-seed3 --seed 3 --log LOG --quiet --json");
}

TEST(Statistics, ThousandsOfValuesHaveAnInterval) {
  std::vector<double> values(2000);
  std::iota(values.begin(), values.end(), 0);
  const Median m = median(values);  // 1.96 sqrt(2000) / 2 to either side
  EXPECT_EQ(m.value, 999.5);
  EXPECT_NEAR(m.low, 999.5 - 43.8, 2);
  EXPECT_NEAR(m.high, 999.5 + 43.8, 2);
}

TEST(CompareTable, RatiosArePairedWithTheFirstSetSoThatADriftOfTheMachineCancels) {
  std::vector<std::vector<Trial>> trials(2);
  for (int run = 0; run < 8; ++run) {
    const double drift = 1 + 0.2 * run;
    trials[0].push_back(trial(std::vector<double>(30, 10 * drift)));
    trials[1].push_back(trial(std::vector<double>(30, 9 * drift)));
  }
  const std::vector<Row> rows = summarise(trials, std::nullopt, std::nullopt);
  EXPECT_FALSE(rows[0].ratio);
  ASSERT_TRUE(rows[1].ratio);
  EXPECT_NEAR(rows[1].ratio->value, 0.9, 1e-9);
  EXPECT_NEAR(rows[1].ratio->low, 0.9, 1e-9);
  EXPECT_NEAR(rows[1].ratio->high, 0.9, 1e-9);
  EXPECT_EQ(rows[1].blocks, 8u) << "six runs and more: a block each";
  EXPECT_LT(rows[0].step_ms.low, rows[0].step_ms.value);
  EXPECT_EQ(table_text({}, rows).find("not resolved"), std::string::npos);
}

TEST(CompareTable, WhatIsNotResolvedIsCalledSo) {
  std::vector<double> a, b;
  for (int i = 0; i < 100; ++i) a.push_back(10), b.push_back(i / 10 % 2 ? 11 : 9);
  const std::vector<Row> rows = summarise({{trial(a)}, {trial(b)}}, 0, std::nullopt);
  EXPECT_EQ(rows[0].blocks, 15u);
  EXPECT_NE(table_text({}, rows).find(" not resolved"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(table_json({}, rows))["sets"][1]["ratio"]["resolved"].get<bool>());
}

TEST(CompareTable, TooFewPairsResolveNothing) {
  // Six runs of the second set, of the first only two ended well.
  std::vector<Trial> first, second;
  for (int r = 0; r < 6; ++r) {
    first.push_back(trial({10, 10, 10})), second.push_back(trial({5, 5, 5}));
    if (r > 1) first.back().error = "lost";
  }
  const std::vector<Row> rows = summarise({first, second}, 0, std::nullopt);
  const std::string text = table_text({}, rows);
  EXPECT_NE(text.find(" not resolved"), std::string::npos) << text;
  EXPECT_NE(text.find("Intervals are over 2 to 6 runs of each set"), std::string::npos) << text;
}

TEST(CompareTable, TheFirstStepsDoNotCount) {
  std::vector<double> ms(20, 10);
  for (int i = 0; i < 10; ++i) ms[static_cast<std::size_t>(i)] = 1000;
  EXPECT_EQ(summarise({{trial(ms)}}, 10, std::nullopt)[0].step_ms.high, 10);
  EXPECT_EQ(summarise({{trial(ms)}}, 0, std::nullopt)[0].step_ms.high, 1000);
  EXPECT_EQ(summarise({{trial({1000, 10, 10, 10, 10})}}, std::nullopt, std::nullopt)[0].step_ms.high, 10) << "a fifth";
  EXPECT_EQ(summarise({{trial({5})}}, 100, std::nullopt)[0].step_ms.value, 5) << "at least one step counts";
  // The first step waits for nothing, the last for its own messages and for those of the step before.
  EXPECT_EQ(summarise({{trial({1, 10, 30})}}, 1, std::nullopt)[0].step_ms.value, 10);
}

TEST(CompareTable, AccuraciesAreMeanAndSpreadOverSeedsAndTimesToATargetMedians) {
  const std::vector<Row> rows =
      summarise({{trial({1}, 90), trial({1}, 92)}, {trial({1}, 80), trial({1}, 95)}}, std::nullopt, 85);
  EXPECT_DOUBLE_EQ(*rows[0].accuracy, 91);
  EXPECT_NEAR(*rows[0].accuracy_spread, std::sqrt(2.0), 1e-12);
  EXPECT_DOUBLE_EQ(*rows[0].seconds_to_target, 2);
  EXPECT_FALSE(rows[1].seconds_to_target);
  EXPECT_EQ(rows[1].reached_target, 1);
  TableHead head;
  head.target_accuracy = 85;
  EXPECT_NE(table_text(head, rows).find("reached by 1 of 2"), std::string::npos);
}

TEST(CompareOptions, LearningGoesWithoutTheNetworkAndTimingWithShortEpochs) {
  CompareOptions o =
      parse_compare({"cifar10", "--learn", "12", "--workers", "4", "--epochs", "5", "--link=1gbit", "--through",
                     "net run -n {ranks}", "--vs", "ring: --codec fp16", "--vs", "served: --sync ps --link-of 1=1mbit"});
  o.sets[1].ranks = 5;
  const auto command = [&](std::size_t set, RunKind run) {
    return join(command_of(o, o.sets[set], "cifar10", "laconic", 0, "LOG", run), " ");
  };
  EXPECT_EQ(command(0, RunKind::learning),
            "cifar10 --workers 4 --epochs 5 --link=1gbit --codec fp16 --link none --seed 0 --log LOG --quiet --json");
  EXPECT_EQ(command(1, RunKind::learning),
            "cifar10 --workers 4 --epochs 5 --link=1gbit --sync ps --link-of 1=1mbit --link none --seed 0 --log LOG "
            "--quiet --json");
  EXPECT_EQ(command(1, RunKind::timing),
            "net run -n 5 cifar10 --workers 4 --epochs 5 --link=1gbit --sync ps --link-of 1=1mbit --epoch-steps 12 "
            "--eval-every 0 --seed 0 --log LOG --quiet --json");
  expect_error<UsageError>(
      [] {
        parse_compare({"mnist", "--learn", "5", "--target-accuracy", "80", "--vs", ""});
      },
      {"--learn", "--target-accuracy"});
  expect_error<UsageError>(
      [] {
        parse_compare({"mnist", "--learn", "5", "--launch", "2", "--vs", ""});
      },
      {"--launch", "give --workers"});
}

TEST(CompareOptions, APeerTakesTheOptionsForAll) {
  CompareOptions o =
      parse_compare({"mnist", "--preset", "inceptionn-hdc", "--workers", "2", "--through", "net {ranks}", "--vs",
                     "ours: ", "--peer", "DDP: python3 'a b.py' --hook fp16"});
  ASSERT_EQ(o.sets.size(), 2u);
  EXPECT_EQ(o.sets[1].label, "DDP");
  o.sets[1].ranks = 2;
  const std::vector<std::string> command = command_of(o, o.sets[1], "mnist", "laconic", 3, "LOG");
  EXPECT_EQ(std::vector(command.begin(), command.begin() + 6),
            (std::vector<std::string>{"net", "2", "python3", "a b.py", "--hook", "fp16"}));
  EXPECT_EQ(value_of(command, "--batch"), "25") << "what a preset stands for: it knows no presets";
  EXPECT_EQ(value_of(command, "--seed"), "3");
  for (const char* wrong : {"python3", ": python3", "DDP:", "DDP: 'x"})
    EXPECT_THROW(parse_compare({"mnist", "--peer", wrong}), UsageError) << wrong;
}

/// Two epochs of 100 steps each, and what they come to.
Trial learned(double after_one, double after_two) {
  Trial t;
  t.model = "lenet";
  for (int i = 0; i < 200; ++i) t.steps.push_back(logged(1, 0, i < 100 ? 4000 : 1000, 4000, 1 + i / 100));
  t.evaluations = {{1, after_one, 1, std::nullopt, 1, 10000}, {2, after_two, 1, std::nullopt, 2, 10000}};
  return t;
}

/// Two epochs of three steps each, of which the first takes much longer.
Trial timed(double one, double two) {
  Trial t;
  for (int i = 0; i < 6; ++i) {
    const double ms = i < 3 ? one : two;
    t.steps.push_back(logged(i % 3 == 0 ? 50 * ms : ms, 0, 2500, 4000, 1 + i / 3));
  }
  return t;
}

TEST(CompareLearning, SecondsAreStepsTimesTheTimeOfTheirPhase) {
  // The first set reaches its own end, 90 %, less one standard error of 10,000 samples, 0.3: in its second epoch. So
  // does the next one, whose epochs differ. The third does in its first. The fourth never does.
  Learning l = put_together(
      {{learned(80, 90)}, {learned(70, 89.8)}, {learned(89.9, 95)}, {learned(80, 89)}, {learned(80, 89.996)}},
      {{timed(10, 10.5)}, {timed(10, 2)}, {timed(5, 1)}, {timed(1, 1)}, {timed(1, 1)}});
  EXPECT_NEAR(l.standard_error, 0.3, 1e-12);
  EXPECT_NEAR(l.target, 89.7, 1e-12);
  ASSERT_EQ(l.rows[0].phases.size(), 1u) << "10 and 10.5 ms are alike";
  EXPECT_EQ(l.rows[0].phases[0].steps, 200);
  EXPECT_NEAR(l.rows[0].seconds->value, 200 * 10.25e-3, 1e-12);
  ASSERT_EQ(l.rows[1].phases.size(), 2u);
  EXPECT_NEAR(l.rows[1].seconds->value, 100 * 10e-3 + 100 * 2e-3, 1e-12);
  EXPECT_NEAR(l.rows[1].speedup->value, 2.05 / 1.2, 1e-12);
  EXPECT_NEAR(l.rows[1].behind, 0.2, 1e-12);
  EXPECT_NEAR(l.rows[2].seconds->value, 100 * 5e-3, 1e-12);
  EXPECT_EQ(l.rows[2].epochs, 1);
  EXPECT_FALSE(l.rows[3].seconds);
  for (std::size_t s = 0; s < 5; ++s) l.rows[s].label = std::string(1, static_cast<char>('a' + s));
  const std::string text = learning_text({}, l, false);
  for (const char* part : {"200 x 10.25 ms", "100 x 10 ms + 100 x 2 ms", "0.20 behind: within one", "5.00 better",
                           "1.00 behind: 3.3 of them", "not reached", " level ", "Target: an accuracy of 89.70"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("times as much"), std::string::npos) << "2,500 bytes a step in both";
  const auto json = nlohmann::json::parse(learning_json({}, l));
  EXPECT_EQ(json["sets"][1]["phases"][1]["ms"], 2);
  EXPECT_NEAR(json["sets"][1]["seconds"]["median"].get<double>(), 1.2, 1e-9);
}

// In steps 4, 7, 10, ... a worker waits for what was sent at the end of a round. Whatever the length of an epoch, as
// long as it holds a round, that wait is shared out over three steps.
TEST(CompareLearning, AWaitOnceInARoundCountsForTheWholeRound) {
  for (const int steps : {4, 5, 6, 7, 9, 20}) {
    Trial t;
    t.exchange_every = 3;
    for (int i = 0; i < 3 * steps; ++i)
      t.steps.push_back(logged(i % steps == 0 ? 1000.0 : i % 3 == 0 ? 31.0 : 1.0, 0, 10, 40, 1 + i / steps));
    const Learning l = put_together({{learned(80, 90)}}, {{t}});
    ASSERT_EQ(l.rows[0].phases.size(), 1u) << steps;
    EXPECT_NEAR(l.rows[0].phases[0].ms, (31 + 1 + 1) / 3.0, 1e-9) << steps;
    EXPECT_EQ(l.rows[0].caveat, "");
    // Another epoch that --steps has cut to less than a round changes nothing.
    t.steps.resize(t.steps.size() + 2, logged(500, 0, 10, 40, 4));
    const Learning cut = put_together({{learned(80, 90)}}, {{t}});
    ASSERT_EQ(cut.rows[0].phases.size(), 1u) << steps;
    EXPECT_NEAR(cut.rows[0].phases[0].ms, (31 + 1 + 1) / 3.0, 1e-9) << steps;
    EXPECT_EQ(cut.rows[0].caveat, "");
  }
  Trial few;
  few.exchange_every = 3;
  for (int i = 0; i < 6; ++i) few.steps.push_back(logged(1, 0, 10, 40, 1 + i / 3));
  const Learning l = put_together({{learned(80, 90)}}, {{few}});
  EXPECT_NE(
      learning_text({}, l, false).find("exchanges once in 3 steps: its time is right from --learn 4 on"),
      std::string::npos);
}

// It has its own exchange to wait for, where others wait for that of the step before.
TEST(CompareLearning, TheLastStepOfARunIsNotCounted) {
  Trial t = timed(10, 10);
  t.steps.back().step_ms = 70;
  const Learning l = put_together({{learned(80, 90)}}, {{t}});
  ASSERT_EQ(l.rows[0].phases.size(), 1u);
  EXPECT_NEAR(l.rows[0].phases[0].ms, 10, 1e-12);
  t.steps.pop_back();  // two steps of the second epoch are left: the first is never counted, and one is needed
  t.steps.back().step_ms = 70;
  EXPECT_NEAR(put_together({{learned(80, 90)}}, {{t}}).rows[0].seconds->value, 100 * 10e-3 + 100 * 70e-3, 1e-12);
}

TEST(CompareLearning, OverSeedsTheMeanCounts) {
  const std::vector<Trial> dense{learned(80, 90), learned(80, 92), learned(80, 91)},
      ms{timed(10, 10), timed(20, 20), timed(30, 30)};
  const Learning l = put_together({dense, dense, {learned(80, 92), learned(80, 80), learned(80, 92)}},
                                  {ms, {timed(5, 5), timed(10, 10), timed(15, 15)}, ms});
  EXPECT_NEAR(*l.rows[0].end, 91, 1e-12);
  EXPECT_NEAR(*l.rows[0].end_spread, 1, 1e-12);
  ASSERT_TRUE(l.rows[0].seconds) << "although one of the seeds stays below the target";
  EXPECT_NEAR(l.rows[0].seconds->value, 4, 1e-12);
  EXPECT_NEAR(l.rows[0].seconds->low, 2, 1e-12);
  EXPECT_NEAR(l.rows[0].seconds->high, 6, 1e-12);
  EXPECT_NEAR(l.rows[1].speedup->low, 2, 1e-12) << "turn by turn";
  EXPECT_NEAR(l.rows[1].speedup->high, 2, 1e-12);
  EXPECT_FALSE(l.rows[2].seconds);
  EXPECT_EQ(l.rows[2].epochs, 0);
}

TEST(CompareLearning, OfAPerplexityLessIsBetter) {
  const auto text = [](double one, double two) {
    Trial t = learned(0, 0);
    t.evaluations = {{1, std::nullopt, 1, one, 1, 100}, {2, std::nullopt, 1, two, 2, 100}};
    return t;
  };
  const Learning l = put_together({{text(150, 120), text(140, 122)}, {text(121.5, 110), text(122, 109)}},
                                  {{timed(10, 10), timed(10, 10)}, {timed(10, 10), timed(10, 10)}});
  EXPECT_TRUE(l.perplexity);
  EXPECT_NEAR(l.target, 121 + std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(l.rows[1].behind, -11.5, 1e-9);
  EXPECT_NEAR(l.rows[1].speedup->value, 2, 1e-9) << "after one epoch instead of two";
}

TEST(CompareLearning, ARunThatFailsIsNamedAndTheOthersStand) {
  Trial failed;
  failed.error = "no such file";
  const Learning l =
      put_together({{learned(80, 90)}, {failed}, {learned(80, 90)}}, {{timed(10, 10)}, {timed(10, 10)}, {failed}});
  EXPECT_TRUE(l.rows[0].seconds);
  EXPECT_FALSE(l.rows[1].end);
  EXPECT_EQ(l.rows[1].error, "no such file");
  EXPECT_TRUE(l.rows[2].end);
  EXPECT_FALSE(l.rows[2].seconds);
  const std::vector<Trial> twice{learned(80, 90), learned(80, 90)};
  const Learning second = put_together({twice, twice}, {{failed, timed(20, 20)}, {timed(5, 5), timed(10, 10)}});
  EXPECT_NEAR(second.rows[1].speedup->value, 2, 1e-9) << "the second turn of both";
  EXPECT_NE(learning_text({}, l, true).find("no such file"), std::string::npos);
  EXPECT_NE(learning_text({}, put_together({{failed}}, {{failed}}), false).find("no such file"),
            std::string::npos);
}

TEST(CompareLearning, SaysWhereBuildsOrWorkersDifferAndWhereATrainingDidNotEndWell) {
  Trial other = learned(80, 90), endless = learned(80, 90), two = timed(10, 10);
  other.build = "0.1.0 abc", two.workers = 2;
  endless.evaluations.back().accuracy.reset();
  const Learning l = put_together({{learned(80, 90)}, {other}, {learned(80, 90)}, {endless, learned(80, 90)}},
                                  {{timed(10, 10)}, {timed(10, 10)}, {two}, {timed(10, 10)}});
  EXPECT_EQ(l.rows[0].caveat, "");
  EXPECT_NE(l.rows[1].caveat.find("learned with 0.1.0 abc, and was timed with"), std::string::npos);
  EXPECT_NE(l.rows[2].caveat.find("give --workers"), std::string::npos);
  EXPECT_NE(l.rows[3].error.find("finite"), std::string::npos);
}

// Fifteen steps of 1 ms and one of 17: the median would be 1.
TEST(CompareTable, StepsOfARoundAreTakenTogether) {
  std::vector<double> ms(100, 1);
  for (std::size_t i = 0; i < ms.size(); i += 16) ms[i] = 17;
  Trial rounds = trial(ms), short_one = trial({1, 1, 17, 1});
  rounds.exchange_every = short_one.exchange_every = 16;
  const std::vector<Row> rows = summarise({{trial(std::vector<double>(100, 2))}, {rounds}}, 4, std::nullopt);
  EXPECT_NEAR(rows[1].step_ms.value, 2, 1e-12);
  EXPECT_NEAR(rows[1].exposed_ms.value(), 1, 1e-12);
  EXPECT_NEAR(*rows[1].bytes_sent, 1000, 1e-9);
  EXPECT_EQ(rows[1].blocks, 5u) << "95 steps";
  EXPECT_EQ(rows[0].blocks, 5u) << "so that they pair";
  EXPECT_NEAR(rows[1].ratio->value, 1, 1e-12);
  EXPECT_NEAR(summarise({{short_one}}, 0, std::nullopt)[0].step_ms.value, 5, 1e-12) << "less than a round";
  EXPECT_NE(table_text({}, rows).find("exchanges once in 16 steps: as many"), std::string::npos);
  const std::string part = table_text({}, summarise({{short_one}}, 0, std::nullopt));
  EXPECT_NE(part.find("exchanges once in 16 steps, and fewer were counted"), std::string::npos) << part;
  // Part of a round resolves nothing, whichever set has it.
  const std::vector<Trial> shorts(8, short_one), dense(8, trial({9, 9, 9, 9}));
  for (const auto& sets : {std::vector{shorts, dense}, std::vector{dense, shorts}})
    EXPECT_NE(table_text({}, summarise(sets, 0, std::nullopt)).find("not resolved"), std::string::npos);
  EXPECT_EQ(table_text({}, summarise({dense, std::vector<Trial>(8, trial({5, 5, 5, 5}))}, 0, std::nullopt))
                .find("not resolved"),
            std::string::npos);
}

TEST(CompareTable, TheTestLossAtTheEndStandsBesideTheAccuracy) {
  std::vector<Row> rows = summarise({{trial({1}, 90, 0.25), trial({1}, 92, 0.75)},
                                     {trial({1}, 80, 0.125)},
                                     {trial({1})},
                                     {trial({1}, 80, 2), trial({1}, 80, std::nullopt)}},
                                    std::nullopt, std::nullopt);
  rows[0].label = "two", rows[1].label = "one", rows[2].label = "none", rows[3].label = "infinite";
  EXPECT_DOUBLE_EQ(*rows[0].loss, 0.5);
  EXPECT_NEAR(*rows[0].loss_spread, std::sqrt(0.125), 1e-12);
  EXPECT_FALSE(rows[1].loss_spread);
  const std::string text = table_text({}, rows), markdown = table_text({}, rows, true);
  EXPECT_NE(text.find("    accuracy %        test loss\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  91.00 ± 1.41  0.5000 ± 0.3536\n"), std::string::npos) << text;
  EXPECT_NE(markdown.find(" | accuracy % | test loss |\n"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find(" | 91.00 ± 1.41 | 0.5000 ± 0.3536 |\n"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find(" | 80.00 | 0.1250 |\n"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find(" | – | – |\n"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find(" | 80.00 ± 0.00 | – |\n"), std::string::npos) << "one loss is not finite: " << markdown;
  const auto sets = nlohmann::json::parse(table_json({}, rows))["sets"];
  EXPECT_EQ(sets[0]["loss"], 0.5);
  EXPECT_NEAR(sets[0]["loss_spread"].get<double>(), std::sqrt(0.125), 1e-12);
  EXPECT_EQ(sets[1]["loss"], 0.125);
  EXPECT_FALSE(sets[1].contains("loss_spread"));
  EXPECT_FALSE(sets[2].contains("loss"));
  EXPECT_FALSE(sets[3].contains("loss"));
}

TEST(CompareTable, LossesAreReadFromTheLog) {
  const TempFolder dir;
  dir.write("log", bytes_of("{\"run\":{\"version\":\"0.1.0\",\"commit\":\"abc\"}}\n"
                            "{\"step\":1,\"step_ms\":3.0}\n"
                            "{\"eval\":{\"loss\":0.5,\"top1_error\":20.0}}\n"
                            "{\"eval\":{\"loss\":null}}\n"));
  dir.write("out", bytes_of(R"({"model":"lenet","steps":2,"exchange_every":16})"));
  dir.write("err", {});
  const Trial t = read_trial(dir / "log", dir / "out", dir / "err", 0);
  ASSERT_EQ(t.evaluations.size(), 2u);
  EXPECT_EQ(t.evaluations[0].loss, 0.5);
  EXPECT_FALSE(t.evaluations[1].loss);
  EXPECT_FALSE(t.evaluations[1].accuracy);
  EXPECT_EQ(t.build, "0.1.0 abc");
  EXPECT_EQ(t.exchange_every, 16);
  EXPECT_EQ(t.steps_made, 2) << "so this log was cut";
}

TEST(CompareTable, LanguageModelsAreComparedByTheirPerplexity) {
  const TempFolder dir;
  dir.write("log", bytes_of("{\"step\":1,\"step_ms\":3.0}\n"
                            "{\"eval\":{\"loss\":5.0,\"perplexity\":148.41,\"seconds\":2}}\n"
                            "{\"test\":{\"loss\":4.9,\"perplexity\":134.29}}\n"));
  dir.write("out", bytes_of(R"({"model":"lstm-small"})"));
  dir.write("err", {});
  const Trial t = read_trial(dir / "log", dir / "out", dir / "err", 0);
  ASSERT_EQ(t.evaluations.size(), 1u);
  EXPECT_FALSE(t.evaluations[0].accuracy);
  EXPECT_EQ(t.evaluations[0].perplexity, 148.41);
  const auto rows = summarise({{t}}, 0, std::nullopt);
  EXPECT_EQ(rows[0].perplexity, 148.41);
  const std::string text = table_text({.where = "here", .what = "it", .command = "c", .target_accuracy = {}}, rows);
  EXPECT_NE(text.find("perplexity"), std::string::npos) << text;
  EXPECT_NE(text.find("148.41"), std::string::npos) << text;
  EXPECT_EQ(text.find("accuracy"), std::string::npos) << text;
  EXPECT_EQ(text.find("loss"), std::string::npos) << text;
}

TEST(CompareTable, AFailedSetIsNamedAndTheOthersAreShown) {
  Trial failed;
  failed.error = "it does not work (--x): leave it out";
  std::vector<Row> rows = summarise({{failed}, {trial({3, 3, 3})}}, std::nullopt, std::nullopt);
  rows[0].label = "one", rows[1].label = "two";
  const std::string text = table_text({}, rows), markdown = table_text({}, rows, true);
  EXPECT_NE(text.find("one failed: it does not work (--x): leave it out\n"), std::string::npos);
  EXPECT_NE(text.find("two              3.00  –"), std::string::npos) << text;
  EXPECT_NE(markdown.find("| two | 3.00 | – | 0.001 | 25.0 % | 1.50 |\n"), std::string::npos) << markdown;
  EXPECT_EQ(nlohmann::json::parse(table_json({}, rows))["sets"][0]["error"], failed.error);
}

TEST(CompareTable, WhatIsNotCountedIsNoNumber) {
  const TempFolder dir;
  dir.write("log", bytes_of(R"({"step":1,"step_ms":3.0,"bytes_sent":null,"bytes_dense":4000})"));
  dir.write("out", bytes_of(R"({"model":"lenet"})"));
  dir.write("err", {});
  const Trial uncounted = read_trial(dir / "log", dir / "out", dir / "err", 0);
  ASSERT_EQ(uncounted.error, "");
  std::vector<Row> rows = summarise({{uncounted}, {trial({3, 3, 3})}}, std::nullopt, std::nullopt);
  rows[0].label = "nccl", rows[1].label = "ring";
  const std::string markdown = table_text({}, rows, true);
  EXPECT_NE(markdown.find("| nccl | 3.00 | 1 | not counted | – | – |\n"), std::string::npos) << markdown;
  EXPECT_TRUE(nlohmann::json::parse(table_json({}, rows))["sets"][0]["bytes_sent"].is_null());
}

/// One layer with a weight of 1 MB: 10 ms forward, 20 ms backward; and how it travels.
dist::LayerTimes one_layer() {
  dist::LayerTimes times;
  times.layers.push_back({"fc", 10, 20, {{"fc.weight", 250'000, 20, 0, 1}}});
  return times;
}
std::string plan(const std::string& algorithm, int chunks = 1, const std::string& travels = "plan") {
  std::string buckets;
  for (int c = 0; c < chunks; ++c)
    buckets += std::string(c ? "," : "") + R"({"parameters":["fc.weight"],)" + (chunks > 1 ? concat("\"rows\":[", c, ",1],") : "") +
               R"("algorithm":")" + algorithm + R"(","pieces":1})";
  return R"({"plan":{"format":1,"buckets":[)" + buckets + "]},\"travels\":\"" + travels + "\"}";
}
ExchangeFacts exchange(const char* link, dist::Overlap overlap = dist::Overlap::forward, int accumulate = 1) {
  return {4, dist::LinkSpec::parse(link, "--link"), overlap, accumulate};
}

TEST(CompareBound, AddsWhatTheLinkTakesToComputing) {
  // 4 ranks in a ring send 1.5 MB each: 12 ms at 1 gbit, and 6 hops of 1 ms.
  const auto bound = bound_of(one_layer(), plan("ring"), exchange("1gbit,1ms", dist::Overlap::none), 0.060);
  ASSERT_TRUE(bound);
  EXPECT_NEAR(bound->compute_seconds, 0.060, 1e-12) << "the layers' times are scaled to what all workers take";
  EXPECT_NEAR(bound->exchange_seconds, 0.012, 1e-12);
  EXPECT_NEAR(bound->step_seconds, 0.060 + 0.012 + 0.006, 1e-12);
  // Two ranks exchange halves of 4 MB by a butterfly, each in pieces: one latency behind the last byte.
  dist::LayerTimes large = one_layer();
  large.layers[0].parameters[0].elements = 1'000'000;
  ExchangeFacts of_two = exchange("1gbit,10ms", dist::Overlap::none);
  of_two.workers = 2;
  const auto pieces = bound_of(large, plan("butterfly"), of_two, 0.060);
  EXPECT_NEAR(pieces->step_seconds, 0.060 + 0.032 + 0.010, 1e-12);
  const auto alone = bound_of(one_layer(), plan("ring", 1, "nothing"), exchange("1gbit,1ms"), 0.060);
  EXPECT_NEAR(alone->step_seconds, 0.060, 1e-12);
}

TEST(CompareBound, ChunksOfAWeightAreHiddenBehindItsOwnLayer) {
  // Backward of 40 ms hands over a quarter of 3 ms every 10 ms, forward takes 5 ms a quarter: only the last is not
  // hidden.
  const auto bound = bound_of(one_layer(), plan("ring", 4), exchange("1gbit,0s"), 0.060);
  EXPECT_NEAR(bound->exchange_seconds, 0.012, 1e-12);
  EXPECT_NEAR(bound->step_seconds, 0.060, 1e-12);
  EXPECT_NEAR(bound_of(one_layer(), plan("ring", 1), exchange("1gbit,0s"), 0.060)->step_seconds, 0.072,
              1e-12);
}

/// Chunks in pieces have one latency behind their last byte, though the last chunk is short and travels in one piece.
TEST(CompareBound, AShortLastChunkMakesNoOtherWait) {
  const auto with_last = [](int pieces) {
    const auto bucket = [](int row, int count) {
      return concat(R"({"parameters":["fc.weight"],"rows":[)", row, R"(,1],"algorithm":"ring","pieces":)", count, "}");
    };
    const std::string text = concat(R"({"plan":{"format":1,"buckets":[)", bucket(0, 4), ",", bucket(1, pieces), "]}}");
    return bound_of(one_layer(), text, exchange("1gbit,1ms", dist::Overlap::none), 0.060)->step_seconds;
  };
  EXPECT_NEAR(with_last(4), 0.060 + 0.012 + 0.001, 1e-12);
  EXPECT_EQ(with_last(1), with_last(4));
}

/// Behind the weight's layer lies another one, whose backward takes 20 ms: so much of the 30 ms on the link is hidden,
/// however many micro-batches came before.
TEST(CompareBound, OnlyTheLastMicroBatchHidesWhatTravels) {
  dist::LayerTimes times = one_layer();
  times.layers.insert(times.layers.begin(), {"early", 10, 20, {}});
  for (const int count : {1, 11}) {
    const double computing = 0.060 * count;
    const auto bound =
        bound_of(times, plan("ring"), exchange("400mbit,0s", dist::Overlap::backward, count), computing);
    EXPECT_NEAR(bound->compute_seconds, computing, 1e-12);
    EXPECT_NEAR(bound->step_seconds, computing + 0.010, 1e-12) << count;
  }
}

/// The program says what its command line, files of options and defaults come to.
TEST(CompareBound, TheAppTellsHowItsSetsTravel) {
  const TempFolder folder;
  std::ofstream(folder / "options.toml") << "workers = 4\nlink = \"1gbit,1ms\"\nseed = 7\n";
  const auto told = [&](const std::string& words) {
    const Result r = run("mnist --data synthetic:100,20 --dry-run --json --config " + (folder / "options.toml") + words);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return nlohmann::json::parse(r.out.substr(r.out.rfind('\n', r.out.size() - 2) + 1));
  };
  const auto plain = told(" --sync ps --servers 2 --accumulate 3 --overlap backward");
  EXPECT_EQ(plain["workers"], 4);
  EXPECT_EQ(plain["servers"], 2);
  EXPECT_EQ(plain["seed"], 7);
  const ExchangeFacts e = exchange_of(plain, std::nullopt);
  EXPECT_EQ(e.link, dist::LinkSpec::parse("1gbit,1ms", ""));
  EXPECT_EQ(e.overlap, dist::Overlap::backward);
  EXPECT_EQ(e.accumulate, 3);
  EXPECT_EQ(exchange_of(told(" --link-of 2=100mbit,2ms --link-of=1=500mbit,1ms"), std::nullopt).link,
            dist::LinkSpec::parse("100mbit,2ms", ""))
      << "a slow worker sets the pace";
  EXPECT_FALSE(exchange_of(told(" --ranks-per-host 2 --link-between 1mbit,0s"), std::nullopt).link)
      << "no replay knows who shares a host's port";
  EXPECT_FALSE(exchange_of(told(" --link none --link-of 2=100mbit,2ms"), std::nullopt).link);
  EXPECT_EQ(exchange_of(told(" --link none"), dist::LinkSpec{}).link, dist::LinkSpec{});
}

TEST(CompareBound, IsSilentWhereItKnowsNoLinkOrNoFormula) {
  EXPECT_FALSE(bound_of(one_layer(), plan("ring"), {.workers = 4}, 0.060));
  EXPECT_FALSE(bound_of(one_layer(), plan("nccl"), exchange("1gbit,1ms"), 0.060));
  for (const char* algorithm : {"ring", "butterfly", "doubling", "hierarchical:2", "ring-tree:2", "tree:2"})
    EXPECT_TRUE(bound_of(one_layer(), plan(algorithm), {.workers = 4, .link = dist::LinkSpec{}}, 0.060)) << algorithm;
  EXPECT_THROW(bound_of({}, plan("ring"), exchange("1gbit,1ms"), 0.060), DataError);
  EXPECT_THROW(bound_of(one_layer(), "{", exchange("1gbit,1ms"), 0.060), DataError);
}

/// What waits for a core, as a thread that sleeps, counts where no core is shared.
TEST(LayerStopwatch, WhereThreadsShareCoresCpuTimeCountsForEachOfThem) {
  SyntheticTraining t(model_info("lenet"), 1, kCpu);
  const auto loss_ms = [&](double threads_per_core) {
    LayerStopwatch watch(*t.model, t.arena, threads_per_core);
    watch.begin_step();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    watch.end_forward();
    const dist::LayerTimes times = watch.times();
    EXPECT_EQ(times.layers.at(0).name, "loss");
    EXPECT_EQ(times.step_ms, times.layers[0].forward_ms);
    return times.step_ms;
  };
  EXPECT_GE(loss_ms(1), 199);
  EXPECT_LT(loss_ms(2), 199);
}

TEST(BenchLayers, CoversEveryParameterOfTheModelOnce) {
  const dist::LayerTimes times = measure_layers("lenet", 4, 1, 3);
  std::int64_t elements = 0;
  double sum = 0;
  for (const auto& layer : times.layers) {
    EXPECT_GE(layer.forward_ms, 0);
    sum += layer.forward_ms + layer.backward_ms;
    for (const auto& p : layer.parameters) {
      elements += p.elements;
      EXPECT_EQ(p.name.rfind(layer.name + ".", 0), 0u);
      EXPECT_GT(p.ready_ms, 0) << p.name;
      EXPECT_LE(p.ready_ms, layer.backward_ms) << p.name;
    }
  }
  EXPECT_EQ(elements, 61706);
  EXPECT_GT(sum, 0);
  EXPECT_EQ(times.layers.front().name, "conv1");
  EXPECT_EQ(times.layers.back().name, "loss");
  EXPECT_EQ(to_json(dist::layer_times_from(to_json(times), "it")), to_json(times));
  EXPECT_THROW(dist::layer_times_from("{}", "it"), DataError);
  EXPECT_THROW(measure_layers("lenet", 4, 1, 1, "{}"), DataError);
}

TEST(BenchLayers, OfALanguageModelATiedWeightIsReadyInTheEmbedding) {
  const std::string plan =
      R"({"format": 1, "buckets": [)"
      R"({"parameters": ["decoder.bias"], "algorithm": "ring"},)"
      R"({"parameters": ["rnn.bias_hh_l1", "rnn.bias_ih_l1", "rnn.weight_hh_l1"], "algorithm": "ring"},)"
      R"({"parameters": ["rnn.weight_ih_l1"], "rows": [0, 1600], "algorithm": "ring"},)"
      R"({"parameters": ["rnn.weight_ih_l1"], "rows": [1600, 1000], "algorithm": "ring"},)"
      R"({"parameters": ["rnn.bias_hh_l0", "rnn.bias_ih_l0", "rnn.weight_hh_l0", "rnn.weight_ih_l0"],)"
      R"( "algorithm": "ring"},)"
      R"({"parameters": ["encoder.weight"], "rows": [0, 16], "algorithm": "ring"},)"
      R"({"parameters": ["encoder.weight"], "rows": [16, 4], "algorithm": "ring"}]})";
  const dist::LayerTimes times = measure_layers("lstm-650", 1, 1, 2, plan, 20);
  std::map<std::string, std::vector<int>> chunks;
  std::vector<std::string> names;
  for (const auto& layer : times.layers) {
    names.push_back(layer.name);
    for (const auto& p : layer.parameters) chunks[layer.name].push_back(p.chunks);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"encoder", "drop_in", "rnn", "drop_out", "decoder", "loss"}));
  EXPECT_EQ(chunks, (std::map<std::string, std::vector<int>>{
                        {"encoder", {2}}, {"rnn", {1, 1, 1, 1, 2, 1, 1, 1}}, {"decoder", {1}}}));
  EXPECT_TRUE(bound_of(times, plan, exchange("1gbit,1ms"), 0.060));
}

// The program as a user meets it.

constexpr const char* kCompare = "laconic compare mnist --data synthetic:1000,100 --workers 2 --batch 16 --steps 12 ";

TEST(Compare, PrintsOneTableAndNamesTheSetThatFailed) {
  const Result r =
      run(std::string(kCompare) +
          "--repeat 2 --vs 'ring: --allreduce ring' --vs 'wrong: --allreduce rung' --vs 'alone: --sync none'");
  EXPECT_EQ(r.exit_code, 1) << r.err;
  EXPECT_NE(r.out.find("mnist: lenet, 2 workers, "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nring "), std::string::npos);
  EXPECT_NE(r.out.find("\nalone "), std::string::npos);
  EXPECT_NE(r.out.find("\nwrong failed: unknown value 'rung' (--allreduce): did you mean ring?"), std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("\nAgain: " LACONIC_APPS "/laconic compare mnist --data synthetic:1000,100"), std::string::npos);
  EXPECT_EQ(r.out.find("bound"), std::string::npos) << "no link is known";
  EXPECT_NE(r.err.find("[1/6] ring, seed 0: 12 steps, "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(", seed 1: 12 steps, "), std::string::npos) << r.err;
}

TEST(Compare, WhereThePageIsStandsInNoTableForDocuments) {
  const TempFolder dir;
  const Result r = run(kCompare + ("--vs 'a_b: --lr 0.1' --vs 'c: --lr 0.2' --markdown --report " + (dir / "page.html")));
  EXPECT_FALSE(has(r.out, "report: ")) << r.out;
  EXPECT_TRUE(has(r.err, "\nreport: " + (dir / "page.html\n"))) << r.err;
}

TEST(Compare, JsonIsTheLastLineAndHoldsTheBound) {
  const TempFolder dir;
  // Every step hands over its own bytes before it ends.
  const Result r = run(std::string(kCompare) + "--json --quiet --overlap backward --rate 100mbit,1ms --keep " +
                       dir.path() + "/kept --vs 'ring: --allreduce ring'");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const auto json = nlohmann::json::parse(r.out);
  const auto& set = json["sets"][0];
  EXPECT_EQ(set["label"], "ring");
  EXPECT_GT(set["step_ms"]["median"].get<double>(), 0);
  EXPECT_GT(set["accuracy"].get<double>(), 0);
  EXPECT_GT(set["loss"].get<double>(), 0);
  EXPECT_GE(set["bytes_sent"].get<double>(), 61706 * 4);  // 2 ranks send half of everything twice
  EXPECT_NEAR(set["exchange_ms"].get<double>(), 61706 * 4 / 12.5e3, 0.01);
  EXPECT_GT(set["bound_ms"].get<double>(), set["exchange_ms"].get<double>());
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/kept/1-ring-seed0.jsonl"));
}

TEST(Compare, DryRunPrintsTheCommandsInTurn) {
  const Result r = run("laconic compare mnist --dry-run --launch 2 --repeat 2 --vs 'a: --lr 1' --vs 'b: --lr 2'");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 4);
  EXPECT_NE(r.out.find(" launch -n 2 "), std::string::npos);
  EXPECT_NE(r.out.find("--lr 2 --seed 1 --log LOG --quiet --json\n"), std::string::npos) << r.out;
}

/// What stands in a file of options counts as what is typed: seeds, workers and servers, and the link.
TEST(Compare, KnowsWhatAFileOfOptionsSays) {
  const TempFolder folder;
  std::ofstream(folder / "options.toml") << "data = \"synthetic:100,20\"\nworkers = 3\nseed = 7\nsteps = 4\n"
                                            "link = \"1gbit,1ms\"\n";
  const std::string common = "laconic compare mnist --config " + (folder / "options.toml") + " ";
  const Result r = run(common + "--dry-run --through 'echo {ranks}' --vs 'a: ' --vs 'b: --sync ps'");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "echo 3 ")) << r.out;
  EXPECT_TRUE(has(r.out, "echo 4 ")) << r.out;
  EXPECT_TRUE(has(r.out, " --seed 7 ")) << r.out;
  const Result learns = run(common + "--dry-run --learn 2 --vs 'a: '");
  EXPECT_TRUE(has(learns.out, "options.toml --link none --seed 7 ")) << learns.out;
  const Result bound = run(common + "--quiet --json --vs 'a: '");
  EXPECT_EQ(bound.exit_code, 0) << bound.err;
  EXPECT_TRUE(nlohmann::json::parse(bound.out)["sets"][0]["bound_ms"].is_number()) << bound.out;
}

TEST(Compare, RunsUnderLaunch) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const Result r =
      run("laconic compare mnist --data synthetic:1000,100 --batch 16 --steps 6 --quiet --launch 2 --vs 'ring: "
          "--allreduce ring'");
  EXPECT_EQ(r.exit_code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("2 workers as processes"), std::string::npos) << r.out;
}

TEST(Compare, HelpAndUnknownPrograms) {
  EXPECT_EQ(run("laconic compare --help").exit_code, 0);
  const Result r = run("laconic compare mnits --vs '--lr 1'");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err, "laconic: error: there is no program 'mnits' (compare): did you mean mnist?\n");
}

TEST(Compare, AnInterruptedRunIsNoFailureOfTheProgram) {
  const TempFolder dir;
  for (const char* file : {"log", "out", "err"}) dir.write(file, {});
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EQ(read_trial(dir / "log", dir / "out", dir / "err", 128 + signal).error, "interrupted");
}

TEST(Compare, RunsDoNotOutliveIt) {
  const TempFolder dir;
  std::ofstream(dir / "app") << "#!/bin/sh\necho $$ >" << dir / "pid"
                             << "\nexec sleep 300\n";
  std::filesystem::permissions(dir / "app", std::filesystem::perms::owner_all);
  const Background compare("laconic compare " + (dir / "app") + " --vs '--lr 1' --keep " + (dir / "kept"));
  ASSERT_TRUE(eventually([&] { return !file_text(dir / "pid").empty(); }));
  compare.signal(SIGKILL);
  const pid_t pid = std::stoi(file_text(dir / "pid"));
  EXPECT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }));
}

TEST(Compare, ARunThatDoesNotStopWhenAskedIsKilled) {
  const TempFolder dir;
  const std::string out = dir / "out";
  const int code = run_to_files(
      {"/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"}, out, dir / "err",
      [&] { return file_text(out).empty(); }, 0.5);
  EXPECT_EQ(code, 128 + SIGKILL);
}

TEST(Compare, AnInterruptStopsTheRunAndShowsWhatThereIs) {
  const TempFolder kept;
  const Background compare(
      "laconic compare mnist --data synthetic:1000,100 --epochs 100000 --vs 'a: --lr 0.1' --vs 'b: --lr 0.2' --keep " +
      kept.path());
  ASSERT_TRUE(eventually([&] {  // a training runs
    const std::filesystem::directory_iterator logs(kept.path());
    return std::any_of(begin(logs), end(logs), [](const auto& log) {
      std::error_code gone;  // a file under another name has its own a moment later
      const std::uintmax_t size = log.file_size(gone);
      return !gone && size > 0;
    });
  }));
  compare.signal(SIGTERM);
  const Result r = const_cast<Background&>(compare).wait();
  EXPECT_EQ(r.exit_code, 128 + SIGTERM);
  EXPECT_NE(r.out.find("\na failed: stopped early: interrupted"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("laconic: error: compare was interrupted"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace laconic
