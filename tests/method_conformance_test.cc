// Every method of the catalogue keeps the promises of dist/method/method.h. A method that is new is tested here without
// a line.
#include <gtest/gtest.h>

#include <algorithm>

#include "dist/method/method.h"
#include "dist/method/none/no_sync.h"
#include "dist/trainer/conformance.h"
#include "tests/error_of.h"

namespace laconic {
namespace {

/// So that small parameters send a choice too, as many elements in each step, and rates fit all methods. What is not
/// used by default stays so.
std::vector<std::pair<std::string, std::string>> for_small_models(const std::string& name) {
  Settings known;
  const std::unique_ptr<dist::Method> method = dist::methods().make(name);
  method->settings(known);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [setting, text] : {std::pair{"dense-below", "1024"},
                                      {"density", "0.2"},
                                      {"warmup", "none"},
                                      {"threshold", "0.05"},
                                      {"every", "4"},
                                      {"demo-update", "sum"},
                                      {"onebit-warmup", "10"}})
    if (const Setting* const there = known.find(setting); there != nullptr && there->text() != "none")
      settings.emplace_back(setting, text);
  return settings;
}

class EveryMethod : public testing::TestWithParam<std::string> {};
TEST_P(EveryMethod, KeepsItsPromises) { EXPECT_NO_THROW(check_method(GetParam(), for_small_models(GetParam()))); }
INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, testing::ValuesIn(dist::methods().names()), [](const auto& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

TEST(Rounds, KeepTheirPromisesWithTheSettingsOfTheirPapers) {
  const CheckOptions kShort{.steps = 24};
  EXPECT_NO_THROW(check_method("rounds", {{"every", "6"}, {"outer", "nesterov"}}, kShort));
  EXPECT_NO_THROW(
      check_method("rounds", {{"every", "6"}, {"outer", "nesterov"}, {"fragments", "2"}, {"delay", "2"}}, kShort));
  EXPECT_NO_THROW(
      check_method("rounds", {{"every", "6"}, {"density", "0.03"}, {"fragments", "2"}, {"delay", "2"}}, kShort));
  EXPECT_NO_THROW(check_method("rounds", {{"every", "4"}, {"pairs", ""}, {"outer", "momentum"}}, kShort));
}

TEST(OnebitAdam, KeepsItsPromisesWhereDenseStepsCome) {
  EXPECT_NO_THROW(check_method("onebit-adam", {{"onebit-warmup", "4"}, {"onebit-refresh", "2"}}));
}

/// Breaks one promise.
class Broken final : public dist::Method {
 public:
  explicit Broken(std::string how) : how_(std::move(how)) {}
  std::string name() const override { return how_; }
  std::string summary() const override { return "for tests"; }
  Traits traits() const override { return {.same_bits = how_ == "says that all are alike"}; }
  std::unique_ptr<dist::Strategy> worker(dist::WorkerSide side) const override {
    if (how_ == "learns nothing") side.update = [](Parameter&, Rows, const dist::StepContext&) {};
    return std::make_unique<dist::NoSync>(side.arena, side.update);
  }
  std::optional<double> expected_bytes(const dist::Plan&, const std::vector<std::shared_ptr<Parameter>>&,
                                       const dist::TrainingFacts&) const override {
    return how_ == "sends less than it says" ? std::optional(1e6) : std::nullopt;
  }

 private:
  std::string how_;
};

/// Makes an update in every fourth step.
class Seldom final : public dist::Method {
 public:
  std::string name() const override { return "seldom"; }
  std::string summary() const override { return "for tests"; }
  Traits traits() const override { return {.joins = false, .same_bits = false, .every = 4}; }
  std::unique_ptr<dist::Strategy> worker(dist::WorkerSide side) const override {
    const auto update = [every_step = std::move(side.update)](Parameter& p, Rows rows, const dist::StepContext& c) {
      if (c.step % 4 == 0) every_step(p, rows, c);
    };
    return std::make_unique<dist::NoSync>(side.arena, update);
  }
};

TEST(CheckMethod, TakesRateAndStepsAndTellsFiguresOfAMethodThatExchangesSeldom) {
  static const bool added = (dist::methods().add("seldom", [] { return std::make_unique<Seldom>(); }), true);
  ASSERT_TRUE(added);
  EXPECT_NO_THROW(check_method("seldom", {}, {.lr = 0.1, .steps = 24}));
  expect_error<Error>([] { check_method("seldom", {}, {.lr = 1e-5}); },
                      {"method seldom: it does not learn: the mean loss of the first 8 steps is 2.",
                       "that of the last 8 of 48 (12 exchanges) is 2.", "and was to be below 2."});
  expect_error<UsageError>([] { check_method("seldom", {}, {.steps = 15}); }, {"15 are too few: give at least 16"});
}

TEST(CheckMethod, FindsAPromiseThatIsBroken) {
  for (const auto& [how, sentence] :
       {std::pair{"learns nothing", "it does not learn: the mean loss of the first 8 steps is 2."},
        {"says that all are alike", "parameters after step 1"},
        {"sends less than it says", "it said that it sends"}}) {
    const std::vector<std::string> known = dist::methods().names();  // these tests may be repeated
    if (std::find(known.begin(), known.end(), how) == known.end())
      dist::methods().add(how, [name = std::string(how)] { return std::make_unique<Broken>(name); });
    expect_error<Error>([&, name = std::string(how)] { check_method(name); }, {sentence});
  }
}

}  // namespace
}  // namespace laconic
