// Recomputation of activations: the same bits from less memory, and nothing counted twice.
#include <gtest/gtest.h>

#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/linear.h"
#include "core/ops/reduce.h"
#include "core/raw.h"
#include "layers/layers.h"
#include "layers/models/models.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/ghosts.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

/// Counts how often each parameter is announced, and how often it is asked for.
struct Counting final : ParameterListener {
  explicit Counting(std::size_t parameters) : ready(parameters), fresh(parameters) {}
  void gradient_ready(Parameter& p, Rows rows) override {
    if (rows.count == p.all_rows().count) ++ready[static_cast<std::size_t>(p.info.index)];
    order.push_back(p.info.index);
  }
  void before_forward(Parameter& p, Rows) override { ++fresh[static_cast<std::size_t>(p.info.index)]; }
  std::vector<int> ready, fresh, order;
};

struct Trained {
  std::vector<float> losses, gradients, parameters, buffers;
  std::vector<int> ready, fresh, order;
  std::size_t peak_bytes;  ///< of host memory, in the last step
};

Trained train(const std::shared_ptr<Module>& model, const Shape& image, bool recompute, Device device = kCpu) {
  model->initialize(3);
  model->checkpoint_activations(recompute);
  ForwardContext context;
  context.seed = 7;
  model->set_context(&context);
  ParameterArena arena(model->parameters(), device);
  model->to(device);
  Trained t;
  const Tensor x = copied(random_tensor({4, image[0], image[1], image[2]}, 11), device);
  const Tensor labels = Tensor::of({4}, std::vector<std::int64_t>{0, 3, 1, 2}, device);
  for (int step = 0; step < 2; ++step) {
    Counting counting(arena.parameters().size());
    arena.set_listener(&counting);
    context.step = step;
    arena.begin_step();
    reset_peak();
    const std::size_t before = memory_stats().in_use_bytes;
    const Tensor loss = classification_loss(*model, x, labels);
    arena.backward(loss);
    t.peak_bytes = memory_stats().peak_bytes - before;
    arena.finish_gradients();
    t.losses.push_back(loss.item());
    t.ready = counting.ready, t.fresh = counting.fresh, t.order = counting.order;
    arena.set_listener(nullptr);
    raw::axpy(arena.values(), -0.01f, arena.gradients());
    for (const auto& p : arena.parameters()) p->value().bump_version();
  }
  t.gradients = arena.gradients().to_vector();
  t.parameters = arena.values().to_vector();
  for (const auto& b : model->named_buffers()) {
    const std::vector<float> v = b.tensor.to_vector();
    t.buffers.insert(t.buffers.end(), v.begin(), v.end());
  }
  model->set_context(nullptr);
  return t;
}

struct Case {
  const char* name;
  std::function<std::shared_ptr<Module>()> build;
  Shape image;
};
std::vector<Case> cases() {
  return {
      {"alexnet", [] { return models::alexnet({.classes = 5, .hidden = 16}); }, {3, 63, 63}},
      {"cifar resnet", [] { return models::resnet_cifar(2, 5); }, {3, 32, 32}},
      {"resnet",
       [] {
         return models::resnet({.blocks = {2, 1, 1, 1}, .bottleneck = true, .classes = 5});
       },
       {3, 33, 33}},
      {"googlenet", [] { return models::googlenet({.auxiliary_heads = true, .classes = 5}); }, {3, 80, 80}},
  };
}

TEST(Recompute, ChangesNoBitAndCountsNothingTwice) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Trained plain = train(c.build(), c.image, false), again = train(c.build(), c.image, true);
    EXPECT_EQ(plain.losses, again.losses);
    EXPECT_TRUE(plain.gradients == again.gradients);
    EXPECT_TRUE(plain.parameters == again.parameters);
    EXPECT_TRUE(plain.buffers == again.buffers);  // running statistics, batches counted
    EXPECT_EQ(plain.order, again.order);          // of gradients that are ready
    for (std::size_t i = 0; i < again.ready.size(); ++i) {
      EXPECT_EQ(again.ready[i], 1) << i;
      EXPECT_EQ(again.fresh[i], 1) << i;
    }
  }
}

TEST(Recompute, ChangesNoBitOnACudaDevice) {
  NEEDS_CUDA();
  const auto run = [](bool recompute) { return train(models::resnet_cifar(1, 5), {3, 8, 8}, recompute, kCuda); };
  const Trained plain = run(false), again = run(true);
  EXPECT_EQ(plain.losses, again.losses);
  EXPECT_TRUE(plain.gradients == again.gradients);
  EXPECT_TRUE(plain.parameters == again.parameters);
  EXPECT_TRUE(plain.buffers == again.buffers);
  EXPECT_EQ(plain.order, again.order);
}

TEST(Recompute, NeedsLessMemoryOfTheKindThatDryRunsTellOf) {
  const auto peak = [](const std::string& name, bool recompute) {
    const auto model = make_model(name);
    model->checkpoint_activations(recompute);
    ParameterArena arena(model->parameters());
    return static_cast<double>(peak_of_step(*model, model_info(name).input, 8));
  };
  for (const char* name : {"resnet20", "resnet18", "googlenet", "vgg16-32"})
    EXPECT_LT(peak(name, true), 0.65 * peak(name, false)) << name;
  EXPECT_LT(peak("alexnet-32", true), peak("alexnet-32", false));
}

TEST(Recompute, ThePeakOfGhostsIsThatOfARealStep) {
  Tensor::empty({1});
  if (memory_stats().allocations == 0) GTEST_SKIP() << "this build's sanitizer hides the allocator";
  for (const bool recompute : {false, true}) {
    const auto model = models::resnet_cifar(2, 5);
    const auto real = static_cast<double>(train(model, {3, 64, 64}, recompute).peak_bytes);
    ParameterArena arena(model->parameters());
    const auto told = static_cast<double>(peak_of_step(*model, {3, 64, 64}, 4));
    EXPECT_GT(real, 0.9 * told);
    EXPECT_LT(real, 2 * told);  // kernels' own work space, and weights in their order
  }
}

TEST(Recompute, CanBeTurnedOff) {
  const auto model = make_model("resnet20");
  ParameterArena arena(model->parameters());
  const std::size_t before = peak_of_step(*model, {3, 32, 32}, 2);
  model->checkpoint_activations();
  EXPECT_LT(peak_of_step(*model, {3, 32, 32}, 2), before);
  model->checkpoint_activations(false);
  EXPECT_EQ(peak_of_step(*model, {3, 32, 32}, 2), before);
}

TEST(Recompute, AParameterUsedInTwoSegmentsIsReadyAfterBoth) {
  const auto weight = std::make_shared<Parameter>(Shape{3, 3}, Role::linear);
  weight->value().copy_from(random_tensor({3, 3}, 1));
  const auto run = [&](bool recompute, Device device) {
    ParameterArena arena({weight}, device);
    Counting counting(1);
    arena.set_listener(&counting);
    const auto leaf = std::make_shared<Leaf>();
    const auto segment = [&](const Tensor& in) {
      return ops::tanh(ops::linear(ops::linear(in, weight->tensor(), {}, true), weight->tensor(), {}));
    };
    const Tensor x = with_gradient(copied(random_tensor({2, 3}, 2), device), leaf);
    const Tensor h = recompute ? checkpoint(x, segment) : segment(x);
    const Tensor y = ops::add(h, recompute ? checkpoint(h, segment) : segment(h));
    arena.begin_step();
    arena.backward(ops::sum(y));
    EXPECT_EQ(counting.ready[0], 1);
    return std::pair{leaf->grad.to_vector(), arena.gradients().to_vector()};
  };
  for (const Device device : with_cuda()) EXPECT_EQ(run(false, device), run(true, device)) << device;
}

TEST(Recompute, OnceKeepsTheFirstResultForTheSecondRun) {
  int made = 0, runs = 0, counted = 0;
  const auto segment = [&](const Tensor& in) {
    ++runs;
    if (!recomputing()) ++counted;
    const Tensor factor = once([&] { return Tensor::full(in.shape(), static_cast<float>(++made)); });
    return ops::multiply(ops::multiply(in, factor), in);
  };
  const auto leaf = std::make_shared<Leaf>();
  ops::sum(checkpoint(with_gradient(Tensor::of({2}, {3, 4}), leaf), segment)).backward();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(counted, 1);
  EXPECT_EQ(leaf->grad.to_vector(), (std::vector<float>{6, 8}));
  EXPECT_FALSE(recomputing());
}

TEST(Recompute, IsAnOrdinaryCallWhereNothingIsRecordedOrNothingIsComputed) {
  int runs = 0;
  const auto leaf = std::make_shared<Leaf>();
  const Tensor x = with_gradient(Tensor::of({1}, {3}), leaf);
  {
    const NoGrad no_grad;
    EXPECT_EQ(checkpoint(x, [&](const Tensor& in) { return ++runs, ops::relu(in); }).node(), nullptr);
  }
  EXPECT_EQ(checkpoint(x, [](const Tensor& in) { return in; }).node(), x.node());
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace laconic
