// The tape: what is promised about gradients, whatever the operations.
#include "core/autograd.h"

#include <gtest/gtest.h>

#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/linear.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "core/parameter.h"
#include "core/raw.h"
#include "tests/cuda_devices.h"

namespace laconic {
namespace {

/// On each device in turn.
class Autograd : public ::testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor of(const Shape& shape, std::initializer_list<float> values) {
    return Tensor::of(shape, values, device());
  }
};
using Arena = Autograd;

std::shared_ptr<Leaf> leaf() { return std::make_shared<Leaf>(); }

/// Notes who was announced, and the gradient at that moment.
struct Notes final : ParameterListener {
  void gradient_ready(Parameter& p, Rows rows) override {
    EXPECT_EQ(rows.first, 0);
    EXPECT_EQ(rows.count, p.info.shape[0]);
    names.push_back(p.info.name);
    gradients.push_back(p.grad().to_vector());
  }
  void before_forward(Parameter& p, Rows) override { asked.push_back(p.info.name); }
  std::vector<std::string> names, asked;
  std::vector<std::vector<float>> gradients;
};

std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, std::initializer_list<float> values) {
  auto p = std::make_shared<Parameter>(shape, Role::linear);
  p->info.name = name;
  p->value().copy_from(Tensor::of(shape, values));
  return p;
}

TEST_P(Autograd, FollowsBothArmsOfADiamond) {
  const auto l = leaf();
  const Tensor x = with_gradient(of({2}, {1, 2}), l);
  const Tensor a = ops::relu(x);
  ops::sum(ops::add(ops::add(a, a), x)).backward();  // y = 3x
  EXPECT_EQ(l->grad.to_vector(), (std::vector<float>{3, 3}));
}

TEST_P(Autograd, FollowsNestedDiamondsInTheRightOrder) {
  const auto l = leaf();
  Tensor h = with_gradient(of({1}, {1}), l);
  for (int i = 0; i < 10; ++i) h = ops::add(h, h);  // 2^10 paths, each operation once
  h.backward();
  EXPECT_EQ(l->grad.item(), 1024);
}

TEST_P(Autograd, DoesNotWriteIntoAGradientThatSomeoneElseStillNeeds) {
  // The addition hands the same dy to both inputs; relu's backward works in place where it may.
  const auto la = leaf(), lb = leaf();
  const Tensor a = with_gradient(of({3}, {-1, 2, -3}), la), b = with_gradient(of({3}, {5, -6, 7}), lb);
  ops::sum(ops::add(ops::relu(a), ops::relu(b))).backward();
  EXPECT_EQ(la->grad.to_vector(), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(lb->grad.to_vector(), (std::vector<float>{1, 0, 1}));
}

TEST_P(Autograd, LeavesValuesAloneThatTheUserStillHolds) {
  const auto l = leaf();
  const Tensor x = with_gradient(of({2}, {-1, 1}), l);
  const Tensor h = ops::add(x, x);
  const Tensor y = ops::relu(h);
  EXPECT_EQ(h.to_vector(), (std::vector<float>{-2, 2}));
  ops::sum(y).backward();
  EXPECT_EQ(h.to_vector(), (std::vector<float>{-2, 2}));
  EXPECT_EQ(y.to_vector(), (std::vector<float>{0, 2}));
}

TEST_P(Autograd, AccumulatesOverTwoBackwardPasses) {
  const auto l = leaf();
  const Tensor x = with_gradient(of({2}, {1, 2}), l);
  ops::sum(x).backward();
  ops::sum(ops::add(x, x)).backward();
  EXPECT_EQ(l->grad.to_vector(), (std::vector<float>{3, 3}));
  l->written = false;  // a new step: the next contribution overwrites
  ops::sum(x).backward();
  EXPECT_EQ(l->grad.to_vector(), (std::vector<float>{1, 1}));
}

TEST_P(Autograd, ReportsASecondUseOfAFreedGraph) {
  const Tensor x = with_gradient(of({2}, {1, 2}), leaf());
  const Tensor loss = ops::sum(ops::relu(x));
  loss.backward();
  try {
    loss.backward();
    FAIL() << "a freed graph was walked again";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("already used"), std::string::npos) << e.what();
  }
}

TEST_P(Autograd, ReportsAHalfFreedGraphToo) {
  const Tensor x = with_gradient(of({2}, {1, 2}), leaf());
  const Tensor h = ops::relu(x);
  ops::sum(h).backward();
  EXPECT_THROW(ops::sum(ops::tanh(h)).backward(), Error);
}

TEST_P(Autograd, WantsOneElementWithAHistory) {
  const Tensor x = with_gradient(of({2}, {1, 2}), leaf());
  EXPECT_THROW(ops::relu(x).backward(), ShapeError);
  EXPECT_THROW(of({1}, {1}).backward(), ShapeError);
  EXPECT_THROW(Tensor().backward(), ShapeError);
}

TEST_P(Autograd, RecordsNothingUnderNoGradAndNestsIt) {
  const Tensor x = with_gradient(of({2}, {1, 2}), leaf());
  {
    NoGrad outer;
    { NoGrad inner; }
    EXPECT_FALSE(recording());
    EXPECT_EQ(ops::relu(x).node(), nullptr);
  }
  EXPECT_TRUE(recording());
  EXPECT_NE(ops::relu(x).node(), nullptr);
}

TEST_P(Autograd, RecordsNothingWhereNobodyAsksForAGradient) { EXPECT_EQ(ops::relu(of({2}, {1, 2})).node(), nullptr); }

TEST_P(Autograd, FreesWhatItKeptWhenTheGraphGoes) {
  const std::size_t before = memory_stats(device()).in_use_bytes;
  {
    const Tensor x = with_gradient(Tensor::full({1000}, 1, device()), leaf());
    Tensor h = x;
    for (int i = 0; i < 5; ++i) h = ops::tanh(h);
    ops::sum(h).backward();
    const Tensor never_walked = ops::sum(ops::tanh(x));
  }
  EXPECT_EQ(memory_stats(device()).in_use_bytes, before);
}

TEST_P(Autograd, ScalesTheLoss) {
  const auto l = leaf();
  const Tensor x = with_gradient(of({1}, {3}), l);
  backward(ops::sum(x), 0.25f);
  EXPECT_EQ(l->grad.item(), 0.25f);
}

TEST(AutogradLayouts, MayDifferBetweenAnOutputAndItsGradient) {
  const auto l = leaf();
  const Tensor x = with_gradient(Tensor::full({1, 16, 2, 2}, 1), l);
  const Tensor a = ops::relu(x);
  Tensor other = raw::to_layout(a, Layout::blocked16);
  const Tensor b = ops::add(other, other);  // no history: a constant in another layout
  ops::sum(ops::add(b, ops::add(a, a))).backward();
  EXPECT_EQ(l->grad.to_vector(), std::vector<float>(64, 2));
}

TEST_P(Arena, AnnouncesATiedParameterOnceAfterBothUses) {
  const auto w = parameter("w", {2, 2}, {1, 2, 3, 4});
  ParameterArena arena({w, w}, device());
  EXPECT_EQ(arena.elements(), 4);
  Notes notes;
  arena.set_listener(&notes);
  arena.begin_step();
  const Tensor x = of({1, 2}, {1, 1});
  const Tensor y = ops::linear(ops::linear(x, w->fresh(), {}), w->fresh(), {});
  EXPECT_EQ(notes.asked, (std::vector<std::string>{"w", "w"}));
  arena.backward(ops::sum(y));
  ASSERT_EQ(notes.names, (std::vector<std::string>{"w"}));
  // y = w w x: d sum(y) / dw = 1 (w x)' + w' 1 x' = [3 7; 3 7] + [4 4; 6 6]
  EXPECT_EQ(notes.gradients[0], (std::vector<float>{7, 11, 9, 13}));
  arena.finish_gradients();
  EXPECT_EQ(notes.names.size(), 1u);
}

/// What is asked and announced of a weight that comes in chunks of rows: "<0:2" awaited, ">0:2" ready.
struct RowNotes final : ParameterListener {
  void gradient_ready(Parameter& p, Rows rows) override {
    said += concat(">", p.info.name, rows.first, ":", rows.count, " ");
    const Tensor part = p.grad().rows(rows.first, rows.count);
    for (const float g : part.to_vector()) gradients.push_back(g);
  }
  void before_forward(Parameter& p, Rows rows) override {
    said += concat("<", p.info.name, rows.first, ":", rows.count, " ");
    if (fresh) raw::fill(p.value().rows(rows.first, rows.count), static_cast<float>(rows.first + 1));
  }
  std::string said;
  std::vector<float> gradients;
  bool fresh = false;  // rows become fresh only when they are asked for
};

TEST_P(Arena, AWeightInChunksIsAwaitedAndAnnouncedByRows) {
  const auto w = parameter("w", {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  ParameterArena arena({w}, device());
  RowNotes notes;
  notes.fresh = true;
  arena.set_listener(&notes);
  w->set_chunk_rows(2);
  arena.begin_step();
  const Tensor x = of({3, 2}, {1, 1, 1, 2, 2, 2}), b = of({5}, {0, 10, 20, 30, -99});
  const Tensor y = ops::linear(x, *w, b, true);
  EXPECT_EQ(notes.said, "<w0:2 <w2:2 <w4:1 ");
  EXPECT_EQ(y.to_vector(), (std::vector<float>{2, 12, 26, 36, 0, 3, 13, 29, 39, 0, 4, 14, 32, 42, 0}));
  notes.said.clear();
  arena.backward(ops::sum(y));
  EXPECT_EQ(notes.said, ">w0:2 >w2:2 >w4:1 ");
  EXPECT_EQ(notes.gradients, (std::vector<float>{4, 5, 4, 5, 4, 5, 4, 5, 0, 0}));
  EXPECT_EQ(w->grad().to_vector(), notes.gradients);
  arena.finish_gradients();
  EXPECT_EQ(notes.said, ">w0:2 >w2:2 >w4:1 ");
  notes.said.clear();
  const NoGrad no_grad;
  ops::linear(x, *w, b);
  EXPECT_EQ(notes.said, "<w0:5 ");  // evaluation needs no chunks
}

TEST_P(Arena, ATiedOrAccumulatedWeightComesInChunksAtItsLastUseOnly) {
  const auto run = [](std::int64_t chunk, std::string& said) {
    const auto w = parameter("w", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    ParameterArena arena({w, w}, device());
    RowNotes notes;
    arena.set_listener(&notes);
    w->set_chunk_rows(chunk);
    arena.begin_step();
    for (const bool last : {false, true}) {
      const Tensor y = ops::linear(ops::linear(of({1, 3}, {1, 1, -2}), *w, {}), *w, {});
      notes.said.clear();
      arena.backward(ops::sum(y), 1.0f, last);
      EXPECT_EQ(notes.said.empty(), !last);
    }
    said = notes.said;
    return w->grad().to_vector();
  };
  std::string whole, chunks;
  EXPECT_EQ(run(0, whole), run(2, chunks));
  EXPECT_EQ(whole, ">w0:3 ");
  EXPECT_EQ(chunks, ">w0:2 >w2:1 ");
}

TEST_P(Arena, AnnouncesInTheOrderInWhichBackwardFinishes) {
  const auto w1 = parameter("w1", {1, 1}, {2}), w2 = parameter("w2", {1, 1}, {3}), w3 = parameter("w3", {1, 1}, {4});
  ParameterArena arena({w1, w2, w3}, device());
  Notes notes;
  arena.set_listener(&notes);
  arena.begin_step();
  Tensor h = of({1, 1}, {1});
  for (const auto& w : {w1, w2, w3}) h = ops::linear(h, w->fresh(), {});
  arena.backward(ops::sum(h));
  EXPECT_EQ(notes.names, (std::vector<std::string>{"w3", "w2", "w1"}));
  EXPECT_EQ(arena.parameters()[0], w3);
  EXPECT_EQ(notes.gradients, (std::vector<std::vector<float>>{{6}, {8}, {12}}));
}

TEST_P(Arena, AnnouncesOnlyAfterTheLastMicroBatchWhichAccumulates) {
  const auto w = parameter("w", {1, 1}, {2});
  ParameterArena arena({w}, device());
  Notes notes;
  arena.set_listener(&notes);
  arena.begin_step();
  for (bool last : {false, false, true}) {
    EXPECT_TRUE(notes.names.empty());
    arena.backward(ops::sum(ops::linear(of({1, 1}, {5}), w->fresh(), {})), 0.5f, last);
  }
  ASSERT_EQ(notes.names.size(), 1u);
  EXPECT_EQ(notes.gradients[0], (std::vector<float>{7.5f}));
  arena.begin_step();  // overwrites: nobody zeroed
  arena.backward(ops::sum(ops::linear(of({1, 1}, {1}), w->fresh(), {})));
  EXPECT_EQ(w->grad().item(), 1);
}

TEST_P(Arena, AnnouncesUnusedParametersAsZerosAtTheEnd) {
  const auto used = parameter("used", {1, 1}, {2}), unused = parameter("unused", {1, 1}, {3});
  ParameterArena arena({unused, used}, device());
  Notes notes;
  arena.set_listener(&notes);
  for (int step = 0; step < 2; ++step) {
    notes = {};
    arena.begin_step();
    arena.backward(ops::sum(ops::linear(of({1, 1}, {5}), used->fresh(), {})));
    EXPECT_EQ(notes.names, (std::vector<std::string>{"used"}));
    arena.finish_gradients();
    EXPECT_EQ(notes.names, (std::vector<std::string>{"used", "unused"}));
    EXPECT_EQ(notes.gradients[1], (std::vector<float>{0}));
  }
}

TEST_P(Arena, KeepsValuesAlignedAndPaddingZero) {
  const auto a = parameter("a", {1, 3}, {1, 2, 3});
  const auto c = parameter("c", {2, 1}, {4, 5});
  ParameterArena arena({a, c}, device());
  EXPECT_EQ(arena.size(), 32);
  EXPECT_EQ(arena.elements(), 5);
  EXPECT_EQ(a->value().to_vector(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(c->info.offset, 0);
  EXPECT_EQ(a->info.offset, 16);
  const auto values = arena.values().to_vector();
  EXPECT_EQ(values[0] + values[1], 9);
  for (int i = 2; i < 16; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 0);
}

TEST_P(Autograd, PutsGradientsByCopyAndInPlaceAlike) {
  // linear writes dx through into(), relu hands its own over through put(); both must add to what is there.
  const auto l = leaf();
  const Tensor x = with_gradient(of({1, 2}, {1, 2}), l);
  const Tensor w = of({1, 2}, {10, 20});
  ops::add(ops::linear(x, w, {}), ops::reshape(ops::sum(ops::relu(x)), {1, 1})).backward();
  EXPECT_EQ(l->grad.to_vector(), (std::vector<float>{11, 21}));
  const auto m = leaf();
  const Tensor z = with_gradient(of({1, 2}, {1, 2}), m), h = ops::relu(z);  // the same on an inner node
  ops::add(ops::linear(h, w, {}), ops::add(ops::reshape(ops::sum(ops::relu(h)), {1, 1}), ops::linear(h, w, {})))
      .backward();
  EXPECT_EQ(m->grad.to_vector(), (std::vector<float>{21, 41}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Autograd, ::testing::ValuesIn(with_cuda({kCpu, kTrap})));
INSTANTIATE_TEST_SUITE_P(Devices, Arena, ::testing::ValuesIn(with_cuda({kCpu, kTrap})));

}  // namespace
}  // namespace laconic
