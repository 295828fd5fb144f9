// Work in steps: where it stops, what it awaits, and what ends it.
#include "core/base/steps.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace laconic {
namespace {

/// Notes i before and after each of `times` waits.
Steps note(std::vector<int>& notes, int i, int times) {
  for (int t = 0; t < times; ++t) {
    notes.push_back(i);
    co_await DeviceComes{};
  }
  notes.push_back(i);
}

TEST(Steps, GoOnFromWaitToWait) {
  std::vector<int> notes;
  Steps steps = note(notes, 5, 2);
  EXPECT_TRUE(notes.empty());  // nothing runs before the first go_on()
  EXPECT_TRUE(steps.go_on());
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_TRUE(steps.go_on());
  EXPECT_FALSE(steps.go_on());
  EXPECT_EQ(notes.size(), 3u);
  EXPECT_FALSE(steps.go_on());  // it stays ended
  EXPECT_FALSE(Steps().go_on());
  note(notes, 6, 3).run(kCpu);
  EXPECT_EQ(notes.size(), 7u);
}

Steps outer(std::vector<int>& notes) {
  Steps first = note(notes, 1, 1), second = note(notes, 2, 0);
  co_await first;
  co_await second;  // which need not wait
  Steps none;
  co_await none;
  notes.push_back(3);
  co_await DeviceComes{};
  Steps last = note(notes, 4, 2);
  co_await last;
}
Steps outermost(std::vector<int>& notes) {
  Steps inner = outer(notes);
  co_await inner;
  notes.push_back(9);
}

TEST(Steps, AwaitOthers) {
  std::vector<int> notes;
  Steps steps = outermost(notes);
  int waits = 0;
  while (steps.go_on()) ++waits;
  EXPECT_EQ(waits, 4);
  EXPECT_EQ(notes, (std::vector<int>{1, 1, 2, 3, 4, 4, 4, 9}));
}

Steps fail(bool at_once) {
  if (!at_once) co_await DeviceComes{};
  throw std::runtime_error("broken");
}
Steps fails_within(bool at_once, bool& caught) {
  Steps inner = fail(at_once);
  try {
    co_await inner;
  } catch (const std::runtime_error&) {
    caught = true;
    throw;
  }
}

TEST(Steps, ThrowWhatEndedThem) {
  for (const bool at_once : {false, true}) {
    bool caught = false;
    Steps steps = fails_within(at_once, caught);
    if (!at_once) {
      EXPECT_TRUE(steps.go_on());
    }
    EXPECT_THROW(steps.go_on(), std::runtime_error);
    EXPECT_TRUE(caught);
    EXPECT_FALSE(steps.go_on());  // it was thrown once
    EXPECT_THROW(fail(at_once).run(kCpu), std::runtime_error);
  }
}

Steps hold(std::shared_ptr<int> value) {
  co_await DeviceComes{};
  ++*value;
}
Steps hold_within(std::shared_ptr<int> value) {
  Steps inner = hold(value);
  co_await inner;
}

TEST(Steps, LeaveNothingWhenTheyEndEarly) {
  const auto value = std::make_shared<int>(0);
  {
    Steps steps = hold_within(value), other = hold(value);
    EXPECT_TRUE(steps.go_on());
    EXPECT_GT(value.use_count(), 1);
    other = std::move(steps);
    EXPECT_TRUE(value.use_count() > 1);
  }
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(*value, 0);
}

}  // namespace
}  // namespace laconic
