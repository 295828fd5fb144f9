#include "apps/bench/allreduce.h"

#include <gtest/gtest.h>

#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic {
namespace {

std::vector<Timed> timed_by(const LinkModel& link) {
  std::vector<Timed> all;
  for (double bytes : {4e3, 6e4, 1e6, 6e7})
    for (const dist::Cost& cost : {dist::ring_allreduce_cost(4, bytes), dist::doubling_allreduce_cost(4, bytes)})
      all.push_back({cost, link.seconds(cost)});
  return all;
}

TEST(FitLink, FindsTheModelThatMadeTheTimes) {
  const LinkModel link{.alpha = 3e-6, .beta = 1.2e-10, .gamma = 4e-11};
  const LinkModel found = fit_link(timed_by(link));
  EXPECT_NEAR(found.alpha, link.alpha, 1e-6 * link.alpha);
  EXPECT_NEAR(found.beta, link.beta, 1e-6 * link.beta);
  EXPECT_NEAR(found.gamma, link.gamma, 1e-5 * link.gamma);
}

TEST(FitLink, NeverSaysThatSomethingTakesLessThanNoTime) {
  std::vector<Timed> all = timed_by({.alpha = 3e-6, .beta = 1e-10, .gamma = 0});
  for (Timed& t : all) t.seconds -= t.cost.bytes_added * 2e-11;  // as if adding gave time back
  const LinkModel found = fit_link(all);
  EXPECT_GE(found.alpha, 0);
  EXPECT_GE(found.beta, 0);
  EXPECT_EQ(found.gamma, 0);
  EXPECT_NEAR(found.alpha, 3e-6, 3e-7);
}

TEST(FitLink, OfNothingIsNothing) {
  EXPECT_EQ(fit_link({}).alpha, 0);
  EXPECT_EQ(fit_link({{.cost = {}, .seconds = 1}}).beta, 0);
}

}  // namespace
}  // namespace laconic
