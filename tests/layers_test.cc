// Modules: names, modes, contexts, and the errors that a newcomer meets.
#include "layers/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/normalize.h"
#include "core/raw.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

TEST(Sequential, FusesTheReluThatFollowsAndChangesNothingElse) {
  Sequential fused({make<Conv2d>({.in = 3, .out = 4, .pad = 1}), make<ReLU>(), make<BatchNorm2d>({.channels = 4}),
                    make<ReLU>(), make<Flatten>(), make<Linear>({.in = 64, .out = 5}), make<ReLU>(), make<ReLU>()});
  fused.initialize(1);
  fused.eval();
  const Tensor x = random_tensor({2, 3, 4, 4}, 2);
  // These layers called one by one: nothing can be fused.
  const auto conv = make<Conv2d>({.in = 3, .out = 4, .pad = 1});
  const auto bn = make<BatchNorm2d>({.channels = 4});
  const auto fc = make<Linear>({.in = 64, .out = 5});
  bn->eval();
  const auto from = fused.named_parameters();
  std::size_t i = 0;
  for (const std::shared_ptr<Module>& m :
       {std::shared_ptr<Module>(conv), std::shared_ptr<Module>(bn), std::shared_ptr<Module>(fc)})
    for (const auto& p : m->named_parameters()) p.parameter->value().copy_from(from[i++].parameter->value());
  const Tensor y = ops::relu((*fc)(ops::flatten(ops::relu((*bn)(ops::relu((*conv)(x)))))));
  const auto a = fused(x).to_vector(), b = y.to_vector();
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-5f);
  EXPECT_EQ(from[2].name, "2.weight");
  EXPECT_EQ(from[4].name, "5.weight");
}

TEST(Module, NamesBuffersAndCountsSharedParametersOnce) {
  struct Tied final : Module {
    Tied() {
      const auto a = child<Linear>("a", {.in = 3, .out = 3, .bias = false});
      share("tied.weight", a->weight());
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  Tied tied;
  tied.initialize(1);
  std::vector<std::string> names;
  for (const auto& p : tied.named_parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tied.weight", "a.weight"}));
  EXPECT_EQ(tied.parameter_count(), 9);
  Sequential s({make<BatchNorm1d>({.channels = 2})});
  const auto buffers = s.named_buffers();
  ASSERT_EQ(buffers.size(), 3u);
  EXPECT_EQ(buffers[0].name, "0.running_mean");
  EXPECT_EQ(buffers[2].name, "0.num_batches_tracked");
  EXPECT_EQ(buffers[2].tensor.dtype(), DType::i64);
}

TEST(Module, TellsParametersTheirNamesAndRoles) {
  const auto model = make_model("resnet20");
  for (const auto& p : model->named_parameters()) EXPECT_EQ(p.parameter->info.name, p.name);
  EXPECT_EQ(model->named_parameters()[0].parameter->info.role, Role::conv);
  EXPECT_EQ(model->named_parameters()[1].parameter->info.role, Role::norm);
  EXPECT_EQ(model->named_parameters().back().parameter->info.role, Role::bias);
}

TEST(Module, SwitchesModesRecursively) {
  const auto model = make_model("resnet20");
  EXPECT_TRUE(model->training());
  model->initialize(1);
  const auto tracked = [&] {
    return model->named_buffers()[2].tensor.item();  // bn1.num_batches_tracked
  };
  const Tensor x = random_tensor({2, 3, 32, 32}, 1);
  NoGrad no_grad;
  (*model)(x);
  EXPECT_EQ(tracked(), 1);
  model->eval();
  (*model)(x);
  EXPECT_EQ(tracked(), 1);
  model->train();
  (*model)(x);
  EXPECT_EQ(tracked(), 2);
}

/// Batch norm that is kept as it is, for fine-tuning, stays so: an evaluation gives each module its own mode back.
TEST(Module, AnEvaluationGivesEachModuleItsOwnModeBack) {
  const auto bn = make<BatchNorm1d>({.channels = 3});
  const auto fc = make<Linear>({.in = 3, .out = 2});
  Sequential model({bn, fc});
  model.initialize(1);
  bn->eval();
  predict(model, Tensor::zeros({3}));
  EXPECT_TRUE(model.training() && fc->training());
  EXPECT_FALSE(bn->training());
  // Nor does what fails leave it in another mode, or watched.
  expect_error<ShapeError>([&] { summarize(model, Tensor::zeros({2, 4})); }, {"[2, 4]"});
  EXPECT_TRUE(model.training() && fc->training());
  EXPECT_EQ(model(Tensor::zeros({2, 3})).shape(), (Shape{2, 2}));
}

TEST(Module, ANameIsUsedOnce) {
  struct Twice final : Module {
    Twice() {
      child<Linear>("fc", {.in = 2, .out = 2});
      child<Linear>("fc", {.in = 2, .out = 2});
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  expect_error<Error>([] { Twice(); }, {"Twice: two parts are called 'fc'"});
}

TEST(Module, AnErrorOfShapesBeginsWithThePathOfItsLayer) {
  struct Block final : Module {
    Block() { conv_ = child<Conv2d>("conv", {.in = 3, .out = 4}), fc_ = child<Linear>("fc", {.in = 5, .out = 2}); }
    Tensor forward(const Tensor& x) override { return fc_(conv_(x)); }
    Child<Conv2d> conv_;
    Child<Linear> fc_;
  };
  const auto said = [](Module& model, const Tensor& x) { return error_of<ShapeError>([&] { model(x); }); };
  Sequential model({make<ReLU>(), std::make_shared<Block>(), make<ReLU>()});
  const Tensor x = Tensor::zeros({2, 3, 8, 8}), y = Tensor::zeros({2, 5, 8, 8});
  const std::string of_fc = said(model, x), of_conv = said(model, y);
  EXPECT_TRUE(of_fc.starts_with("1.fc: linear: ")) << of_fc;
  EXPECT_TRUE(of_conv.starts_with("1.conv: conv2d: ")) << of_conv;
  EXPECT_EQ(of_fc.find("1.fc", 1), std::string::npos) << of_fc;
  // The same once the model has named its parts; a lone layer has no path.
  model.initialize(1);
  EXPECT_EQ(said(model, x), of_fc);
  Conv2d conv({.in = 3, .out = 4});
  EXPECT_EQ("1.conv: " + said(conv, y), of_conv);
}

/// The graph may outlive the model.
TEST(Module, BackwardMayComeWhenTheModelIsGone) {
  Tensor loss;
  {
    Sequential model({make<Linear>({.in = 2, .out = 3}), make<Linear>({.in = 3, .out = 1})});
    model.initialize(1);
    loss = ops::sum(model(random_tensor({4, 2}, 2)));
  }
  loss.backward();
}

TEST(ParameterArena, AGradientThatNoUseHasWrittenIsAnnouncedAsZeros) {
  const auto p = std::make_shared<Parameter>(Shape{2}, Role::linear);
  p->value().copy_from(Tensor::of({2}, {1, 1}));
  ParameterArena arena({p});
  struct Listener final : ParameterListener {
    void gradient_ready(Parameter& parameter, Rows) override { seen.push_back(parameter.grad().to_vector()); }
    void before_forward(Parameter&, Rows) override {}
    std::vector<std::vector<float>> seen;
  } listener;
  arena.set_listener(&listener);
  for (const bool gives : {true, false}) {
    arena.begin_step();
    const Tensor x = p->fresh();
    const Tensor y = record("some", Tensor::of({1}, {3}), {x}, [gives](const Tensor&, Grads& grads) {
      if (gives) grads.put(0, Tensor::of({2}, {5, 5}));
    });
    arena.backward(y);
    arena.finish_gradients();
  }
  EXPECT_EQ(listener.seen, (std::vector<std::vector<float>>{{5, 5}, {0, 0}}));
}

TEST(Module, ShowsEachLayersOutputToTheWatchWithItsPath) {
  const auto model = make_model("lenet");
  model->initialize(1);
  std::vector<std::string> paths;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& output) {
    EXPECT_TRUE(raw::all_finite(output));
    paths.push_back(path);
  };
  model->set_watch(&watch);
  const Tensor x = Tensor::zeros({1, 1, 28, 28});
  (*model)(x);
  EXPECT_EQ(paths, (std::vector<std::string>{"conv1", "pool1", "conv2", "pool2", "flatten", "fc1", "fc2", "fc3"}));
  model->set_watch(nullptr);
  (*model)(x);
  EXPECT_EQ(paths.size(), 8u);
}

TEST(Module, RunsForwardAndBackwardUnderTheLayersName) {
  Sequential model({make<Linear>({.in = 2, .out = 2}), make<Tanh>()});
  model.initialize(1);
  struct Watch final : BackwardWatch {
    void before(const char* operation, const std::string& layer) override {
      seen.push_back(std::string(operation) + " " + layer);
    }
    void after() override {}
    std::vector<std::string> seen;
  } watch;
  const Tensor loss = ops::sum(model(Tensor::zeros({1, 2})));
  set_backward_watch(&watch);
  loss.backward();
  set_backward_watch(nullptr);
  EXPECT_EQ(watch.seen, (std::vector<std::string>{"sum ", "tanh 1", "linear 0"}));
}

TEST(Module, MovesBuffersAndTheLayersThatUseThem) {
  for (const Device device : with_cuda({kTrap})) {
    Sequential model({make<BatchNorm1d>({.channels = 2})});
    model.initialize(1);
    ParameterArena arena(model.parameters(), device);
    model.to(device);
    const Tensor y = model(Tensor::of({2, 2}, {1, 2, 3, 4}, device));
    EXPECT_EQ(y.device(), device);
    EXPECT_FLOAT_EQ(model.named_buffers()[0].tensor.to_vector()[0], 0.2f);  // 0.1 * mean 2
    EXPECT_EQ(model.named_buffers()[2].tensor.item(), 1);
  }
}

TEST(Module, SaysWhatWasLeftOnAnotherDevice) {
  NEEDS_CUDA();
  Sequential model({make<BatchNorm1d>({.channels = 2})});
  model.initialize(1);
  const Tensor x = Tensor::of({2, 2}, {1, 2, 3, 4}, kCuda);
  expect_error<ShapeError>([&] { model(x); }, {"x is on cuda:0", "gamma is on cpu", "Move the model"});
  ParameterArena arena(model.parameters(), kCuda);
  expect_error<ShapeError>([&] { model(x); }, {"running_mean is on cpu", "Move the model"});
  model.to(kCuda);
  EXPECT_NO_THROW(model(x));
  EXPECT_THROW(model(copied(x, kCpu)), ShapeError);
}

TEST(Initialization, IsPyTorchsDefault) {
  const auto conv = make<Conv2d>({.in = 8, .out = 64, .kernel = 3});
  conv->initialize(4);
  const float bound = 1 / std::sqrt(72.0f);
  double sum_of_squares = 0;
  const auto w = conv->parameters()[0]->value().to_vector();
  for (float v : w) {
    EXPECT_LE(std::abs(v), bound);
    sum_of_squares += v * v;
  }
  EXPECT_NEAR(sum_of_squares / static_cast<double>(w.size()), bound * bound / 3, 0.1 * bound * bound / 3);
  for (float v : conv->parameters()[1]->value().to_vector()) EXPECT_LE(std::abs(v), bound);
}

TEST(Initialization, OfCifarResNetsIsHes) {
  const auto model = make_model("resnet20");
  model->initialize(4);
  for (const auto& p : model->named_parameters()) {
    if (p.name != "layer3.2.conv2.weight") continue;
    const auto w = p.parameter->value().to_vector();
    double sum_of_squares = 0;
    for (float v : w) sum_of_squares += v * v;
    EXPECT_NEAR(sum_of_squares / static_cast<double>(w.size()), 2.0 / 576, 0.05 * 2.0 / 576);
    return;
  }
  FAIL() << "no such parameter";
}

TEST(Initialization, GivesEachParameterAStreamOfItsOwn) {
  Sequential small({make<Linear>({.in = 4, .out = 4}), make<Linear>({.in = 4, .out = 4})});
  small.initialize(1);
  EXPECT_NE(small.parameters()[0]->value().to_vector(), small.parameters()[2]->value().to_vector());
}

TEST(Loss, CountsWhatIsAmongTheLargest) {
  for (const Device device : with_cuda()) {
    const Tensor logits = Tensor::of({3, 4}, {1, 2, 3, 4, 4, 3, 2, 1, 5, 5, 0, 0}, device);
    const Tensor labels = Tensor::of({3}, std::vector<std::int64_t>{2, 0, 1}, device);
    EXPECT_EQ(ops::count_correct(logits, labels, 1), 1);  // of equals the lower class counts as larger
    EXPECT_EQ(ops::count_correct(logits, labels, 2), 3);
    const Tensor broken = Tensor::full({3, 4}, NAN, device);
    EXPECT_EQ(ops::count_correct(broken, labels, 4), 0);
  }
}

TEST(Loss, NamesTheRowOfABadLabel) {
  const Tensor logits = Tensor::zeros({3, 4});
  for (std::int64_t bad : {-1, 4, 1000})
    expect_error<DataError>(
        [&] {
          CrossEntropy()(logits, Tensor::of({3}, std::vector<std::int64_t>{0, 1, bad}));
        },
        {"row 2", std::to_string(bad), "4 classes"});
}

TEST(Loss, StaysFiniteForHugeLogits) {
  for (const Device device : with_cuda()) {
    const Tensor logits = Tensor::of({2, 2}, {1e30f, -1e30f, 3e4f, 2e4f}, device);
    const Tensor labels = Tensor::of({2}, std::vector<std::int64_t>{0, 0}, device);
    EXPECT_FLOAT_EQ(CrossEntropy()(logits, labels).item(), 0);
  }
}

TEST(Loss, ShowsNaNInsteadOfHidingIt) {
  for (const Device device : with_cuda()) {
    const Tensor logits = Tensor::of({1, 3}, {1, NAN, 2}, device);
    EXPECT_TRUE(std::isnan(CrossEntropy()(logits, Tensor::of({1}, std::vector<std::int64_t>{0}, device)).item()));
    EXPECT_TRUE(std::isnan(ops::max_pool2d(Tensor::of({1, 1, 2, 2}, {1, NAN, 2, 3}, device), {.kernel = 2}).item()));
    EXPECT_TRUE(std::isnan(ops::relu(Tensor::of({1}, {NAN}, device)).item()));
  }
}

TEST(Errors, SayWhatDoesNotFitWithTheNumbers) {
  const Tensor image = Tensor::zeros({2, 3, 8, 8});
  expect_error<ShapeError>([&] { (*make<Linear>({.in = 10, .out = 2}))(image); }, {"[2, 3, 8, 8]", "Flatten"});
  expect_error<ShapeError>([&] { (*make<Conv2d>({.in = 4, .out = 2}))(image); }, {"[2, 3, 8, 8]", "4 channels"});
  expect_error<ShapeError>([&] { (*make<BatchNorm2d>({.channels = 5}))(image); }, {"[2, 3, 8, 8]", "5"});
  expect_error<ShapeError>([&] { (*make<BatchNorm1d>({.channels = 3}))(image); }, {"BatchNorm1d"});
  expect_error<ShapeError>([&] { (*make<MaxPool2d>({.kernel = 9}))(image); }, {"9 x 9", "[2, 3, 8, 8]"});
  expect_error<ShapeError>([&] { (*make<MaxPool2d>({.kernel = 3, .pad = 2}))(image); }, {"pad 2"});
  expect_error<ShapeError>([&] { (*make<MaxPool2d>({}))(Tensor::zeros({2, 3})); }, {"[2, 3]", "[N, C, H, W]"});
  expect_error<ShapeError>([&] { make<Conv2d>({.in = 4, .out = 6, .groups = 4}); }, {"groups = 4"});
  const Tensor w = Tensor::zeros({3, 3, 3, 3}), number = Tensor::full({}, 1);
  expect_error<ShapeError>([&] { ops::conv2d(image, w, {}, {.stride = 0}); }, {"a stride of 0"});
  expect_error<ShapeError>([&] { ops::conv2d(image, w, {}, {.pad = -1}); }, {"a pad of -1"});
  expect_error<ShapeError>([&] { ops::conv_transpose2d(image, w, {}, 1); }, {"an output pad of 1"});
  expect_error<ShapeError>(
      [&] {
        (*make<BatchNorm2d>({.channels = 0}))(Tensor::zeros({2, 0, 8, 8}));
      },
      {"no channels"});
  expect_error<ShapeError>([&] { ops::upsample2d(image, 0, false); }, {"a scale of 0"});
  expect_error<ShapeError>([&] { ops::dropout(number, 0.5f, {}); }, {"[N, ...]"});
  expect_error<ShapeError>([&] { ops::layer_norm(image, {}, {}); }, {"gamma"});
  expect_error<ShapeError>(
      [&] {
        ops::batch_norm(image, Tensor::zeros({3}), Tensor::zeros({2}), Tensor::zeros({3}), Tensor::zeros({3}), {}, {});
      },
      {"gamma is [3]", "[2]"});
  expect_error<ShapeError>([&] { ops::add(image, Tensor::zeros({2, 3, 8, 7})); }, {"[2, 3, 8, 8]", "[2, 3, 8, 7]"});
  expect_error<ShapeError>([&] { ops::concat_channels({image, Tensor::zeros({2, 3, 8, 7})}); }, {"[2, 3, 8, 7]"});
  expect_error<ShapeError>([&] { ops::reshape(image, {5}); }, {"384", "5"});
  expect_error<ShapeError>([&] { MSE()(image, Tensor::zeros({2})); }, {"[2, 3, 8, 8]", "[2]"});
  expect_error<ShapeError>(
      [&] {
        CrossEntropy()(image, Tensor::of({2}, std::vector<std::int64_t>{0, 0}));
      },
      {"[N, K]"});
}

}  // namespace
}  // namespace laconic
