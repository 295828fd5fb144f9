// The schedule's bound against the table that a prototype of it gave for AlexNet-32 (sizes and multiply-adds of its
// eight layers; forward is a third of computing; 4 ranks at 1 gbit, 34.9 MB sent by each), in ms.
#include "dist/predict/replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"

namespace laconic::dist {
namespace {

struct Case {
  std::vector<ReplayLayer> layers;
  std::vector<ReplayMessage> messages;
};

enum class Order { data_gradient_first, weight_gradient_first, chunks };

Case alexnet32(double compute_ms, double exchange_ms, Order order) {
  const std::vector<double> parameters{1792, 110784, 663936, 884992, 590080, 4198400, 16781312, 40970};
  const std::vector<double> multiply_adds{442368, 7077888, 10616832, 14155776, 9437184, 4194304, 16777216, 40960};
  double all_parameters = 0, all_multiply_adds = 0;
  for (double p : parameters) all_parameters += p;
  for (double m : multiply_adds) all_multiply_adds += m;
  Case c;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double third = compute_ms / 3 * multiply_adds[i] / all_multiply_adds * 1e-3;
    const bool first = order == Order::data_gradient_first;
    c.layers.push_back({std::to_string(i), third, 2 * third});
    const int pieces = static_cast<int>(std::ceil(parameters[i] / (1 << 20)));  // at a quarter of the size, in MiB
    ReplayMessage m{std::to_string(i), static_cast<int>(i), first ? 2 * third : third,
                    exchange_ms * parameters[i] / all_parameters * 1e-3};
    (order == Order::chunks ? m.chunks : m.pieces) = pieces;
    c.messages.push_back(m);
  }
  return c;
}

double step_ms(double compute_ms, double exchange_ms, Order order, Overlap overlap) {
  const Case c = alexnet32(compute_ms, exchange_ms, order);
  const Replay r = replay(c.layers, c.messages, overlap);
  EXPECT_NEAR(1e3 * r.compute_seconds, compute_ms, 1e-9);
  EXPECT_NEAR(1e3 * r.exchange_seconds, exchange_ms, 1e-9);
  return 1e3 * r.step_seconds;
}

TEST(Replay, GivesTheBoundsOfAlexNet32) {
  const struct {
    double compute, exchange, none, backward, forward, weight_first, chunks;
  } table[] = {
      {94, 293, 387, 341, 318, 309, 296}, {310, 295, 605, 453, 378, 350, 310}, {620, 295, 915, 620, 620, 620, 620}};
  const Order late = Order::data_gradient_first;
  for (const auto& t : table) {
    const auto near = [&](double found, double expected, const char* what) {
      EXPECT_NEAR(found, expected, 0.02 * expected) << what << " at " << t.compute << ", " << t.exchange;
    };
    near(step_ms(t.compute, t.exchange, late, Overlap::none), t.none, "none");
    near(step_ms(t.compute, t.exchange, late, Overlap::backward), t.backward, "backward");
    near(step_ms(t.compute, t.exchange, late, Overlap::forward), t.forward, "forward");
    near(step_ms(t.compute, t.exchange, Order::weight_gradient_first, Overlap::forward), t.weight_first,
         "weight gradient first");
    near(step_ms(t.compute, t.exchange, Order::chunks, Overlap::forward), t.chunks, "chunks");
  }
}

TEST(Replay, IsNeverBelowComputingOrExchangingNorAboveTheirSum) {
  for (double compute : {10.0, 100.0, 1000.0})
    for (Order order : {Order::data_gradient_first, Order::weight_gradient_first, Order::chunks})
      for (Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
        const double step = step_ms(compute, 100, order, overlap);
        EXPECT_GE(step, std::max(compute, 100.0) - 1e-6);
        EXPECT_LE(step, compute + 100 + 1e-6);
        if (overlap == Overlap::none) {
          EXPECT_NEAR(step, compute + 100, 1e-6);
        }
      }
}

// Two layers of 1 s forward and 1 s backward each; a message of 3 s for each.
std::vector<ReplayLayer> two_layers() { return {{"a", 1, 1}, {"b", 1, 1}}; }
std::vector<ReplayMessage> two_messages() { return {{"a.weight", 0, 1, 3}, {"b.weight", 1, 1, 3}}; }

TEST(Replay, AMessageWaitsUntilTheLinkIsFree) {
  const Replay r = replay(two_layers(), two_messages(), Overlap::backward);
  // forward 0 … 2, backward of b 2 … 3, of a 3 … 4; b's message 3 … 6, a's 6 … 9
  EXPECT_DOUBLE_EQ(r.step_seconds, 9);
  EXPECT_DOUBLE_EQ(r.compute_seconds, 4);
}

TEST(Replay, APieceIsNotInterruptedButWhatIsUrgentOvertakesTheNext) {
  auto messages = two_messages();
  messages[1].pieces = 3;
  const Replay r = replay(two_layers(), messages, Overlap::forward);
  // From b's gradient at 3: one piece of b until 4, then a until 7, then b until 9; a's forward waits until 7, b's
  // until 9.
  EXPECT_DOUBLE_EQ(r.step_seconds, 8);  // b's forward ends at 10, its next gradient is ready at 11: 3 + 8
}

TEST(Replay, LatencyDelaysAnArrivalWithoutKeepingTheLinkBusy) {
  auto messages = two_messages();
  for (auto& m : messages) m.delay_seconds = 0.5;
  EXPECT_DOUBLE_EQ(replay(two_layers(), messages, Overlap::none).step_seconds, 4 + 6 + 0.5);
}

TEST(Replay, UpdatesCostTheComputeThread) {
  auto messages = two_messages();
  for (auto& m : messages) m.update_seconds = 0.25;
  for (Overlap overlap : {Overlap::none, Overlap::backward})
    EXPECT_DOUBLE_EQ(replay(two_layers(), messages, overlap).step_seconds,
                     replay(two_layers(), two_messages(), overlap).step_seconds + 0.5);
}

TEST(Replay, WithoutMessagesAStepIsItsComputing) {
  EXPECT_DOUBLE_EQ(replay(two_layers(), {}, Overlap::forward).step_seconds, 4);
}

TEST(Replay, RefusesAMessageWithoutLayer) {
  EXPECT_THROW(replay(two_layers(), {{"c", 2, 1, 1}}, Overlap::forward), Error);
  EXPECT_THROW(replay(two_layers(), {{"c", 1, 2, 1}}, Overlap::forward), Error);  // ready after its backward
  EXPECT_THROW(replay(two_layers(), {{"c", 1, 1, -1}}, Overlap::forward), Error);
}

}  // namespace
}  // namespace laconic::dist
