#include "dist/engine/task.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace laconic::dist {
namespace {

template <class T>
T run_to_end(Task<T> task) {
  Scheduler scheduler;
  task.start(scheduler);
  scheduler.run();
  EXPECT_TRUE(task.done());
  return task.result();
}

Task<int> number(int i) { co_return i; }

Task<long> sum_of_awaits(int count) {
  long sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await number(i);
  co_return sum;
}

Task<int> depth(int levels) {
  if (levels == 0) co_return 0;
  const int below = co_await depth(levels - 1);
  co_return below + 1;
}

Task<> throws_after(int levels) {
  if (levels == 0) throw std::runtime_error("from the bottom");
  co_await throws_after(levels - 1);
}

Task<std::string> catches() {
  try {
    co_await throws_after(5);
  } catch (const std::runtime_error& e) {
    co_return e.what();
  }
  co_return "nothing came";
}

TEST(Task, YieldsWhatItReturns) { EXPECT_EQ(run_to_end(number(7)), 7); }

TEST(Task, DoesNotRunBeforeItIsAwaited) {
  bool ran = false;
  const auto body = [&]() -> Task<> {
    ran = true;
    co_return;
  };
  Scheduler scheduler;
  Task<> task = body();
  EXPECT_FALSE(ran);
  task.start(scheduler);
  EXPECT_FALSE(ran);
  scheduler.run();
  EXPECT_TRUE(ran);
}

TEST(Task, AwaitsInALongLoopDoNotGrowTheStack) { EXPECT_EQ(run_to_end(sum_of_awaits(200'000)), 199'999L * 100'000); }

TEST(Task, NestsDeeplyWithoutGrowingTheStack) { EXPECT_EQ(run_to_end(depth(100'000 / 4)), 25'000); }

TEST(Task, PassesExceptionsThroughEveryAwait) {
  EXPECT_EQ(run_to_end(catches()), "from the bottom");
  EXPECT_THROW(run_to_end(throws_after(3)), std::runtime_error);
}

TEST(Task, DestroyedWhileSuspendedDestroysWhatItHolds) {
  struct Counted {
    explicit Counted(int& c) : count(c) { ++count; }
    ~Counted() { --count; }
    int& count;
  };
  int alive = 0;
  const auto inner = [&]() -> Task<> {
    Counted here(alive);
    co_await std::suspend_always{};
  };
  const auto outer = [&]() -> Task<> {
    Counted here(alive);
    Task<> child = inner();
    co_await child;
  };
  Scheduler scheduler;
  {
    Task<> task = outer();
    task.start(scheduler);
    scheduler.run();
    EXPECT_EQ(alive, 2);
    EXPECT_FALSE(task.done());
  }
  EXPECT_EQ(alive, 0);
}

TEST(Task, MovedIntoAVectorAllOfThemRun) {
  Scheduler scheduler;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(number(i));
  for (auto& t : tasks) t.start(scheduler);
  scheduler.run();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tasks[static_cast<std::size_t>(i)].result(), i);
}

}  // namespace
}  // namespace laconic::dist
