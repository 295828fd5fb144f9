// The tour: ten things a user does first, in order.
#include <gtest/gtest.h>

#include "core/raw.h"
#include "layers/layers.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"

namespace laconic {
namespace {

TEST(Tiny, 01_MakesATensorAndReadsItBack) {
  const Tensor x = Tensor::of({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Tiny, 02_ReshapesWithoutACopy) {
  const Tensor x = Tensor::of({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor y = x.view({3, -1});
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_TRUE(y.same_memory(x));
}

TEST(Tiny, 03_ComputesAGradient) {
  auto leaf = std::make_shared<Leaf>();
  const Tensor x = with_gradient(Tensor::of({1, 2}, {2, -3}), leaf);
  const Tensor w = Tensor::of({1, 2}, {5, 7});
  Linear layer({.in = 2, .out = 1, .bias = false});
  layer.weight()->value().copy_from(w);
  layer(x).backward();
  EXPECT_EQ(leaf->grad.to_vector(), (std::vector<float>{5, 7}));               // dy/dx = w
  EXPECT_EQ(layer.weight()->grad().to_vector(), (std::vector<float>{2, -3}));  // dy/dw = x
}

TEST(Tiny, 04_BuildsAModelFromLayers) {
  Sequential model({make<Linear>({.in = 4, .out = 8}), make<ReLU>(), make<Linear>({.in = 8, .out = 3})});
  model.initialize(1);
  EXPECT_EQ(model(Tensor::zeros({5, 4})).shape(), (Shape{5, 3}));
}

TEST(Tiny, 05_NamesParametersAsPyTorchDoes) {
  Sequential model({make<Linear>({.in = 4, .out = 8}), make<ReLU>(), make<Linear>({.in = 8, .out = 3})});
  std::vector<std::string> names;
  for (const auto& p : model.named_parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(Tiny, 06_TakesAModelFromTheZoo) {
  const auto model = make_model("lenet");
  model->initialize(1);
  EXPECT_EQ(model->parameter_count(), 61706);
  EXPECT_EQ((*model)(Tensor::zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
}

TEST(Tiny, 07_TrainsUntilTheLossFalls) {
  for (const Device device : with_cuda()) {
    Sequential model({make<Linear>({.in = 2, .out = 16}), make<ReLU>(), make<Linear>({.in = 16, .out = 2})});
    model.initialize(1);
    ParameterArena arena(model.parameters(), device);
    const Tensor x = Tensor::of({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1}, device);  // exclusive or
    const Tensor labels = Tensor::of({4}, std::vector<std::int64_t>{0, 1, 1, 0}, device);
    const CrossEntropy loss_of;
    Tensor loss;
    for (int step = 0; step < 300; ++step) {
      arena.begin_step();
      loss = loss_of(model(x), labels);
      arena.backward(loss);
      arena.finish_gradients();
      raw::axpy(arena.values(), -0.5f, arena.gradients());
      for (const auto& p : arena.parameters()) p->value().bump_version();
    }
    EXPECT_LT(loss.item(), 0.05f);
    EXPECT_EQ(ops::count_correct(model(x), labels), 4);
  }
}

TEST(Tiny, 08_EvaluatesWithoutRecording) {
  const auto model = make_model("lenet");
  model->initialize(1);
  model->eval();
  NoGrad no_grad;
  EXPECT_EQ((*model)(Tensor::zeros({1, 1, 28, 28})).node(), nullptr);
}

TEST(Tiny, 09_GivesTheSameWeightsForTheSameSeed) {
  const auto a = make_model("lenet"), b = make_model("lenet"), c = make_model("lenet");
  a->initialize(7), b->initialize(7), c->initialize(8);
  EXPECT_EQ(a->parameters()[0]->value().to_vector(), b->parameters()[0]->value().to_vector());
  EXPECT_NE(a->parameters()[0]->value().to_vector(), c->parameters()[0]->value().to_vector());
}

TEST(Tiny, 10_SaysWhatIsWrongAndWhatToDo) {
  Linear layer({.in = 4, .out = 2});
  try {
    layer(Tensor::zeros({1, 3}));
    FAIL() << "a wrong shape was accepted";
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("[1, 3]"), std::string::npos) << e.what();
  }
  try {
    make_model("lenett");
    FAIL() << "an unknown model was accepted";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean lenet?"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace laconic
