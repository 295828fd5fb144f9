// The zoo: exactly the models of the papers, under PyTorch's names.
#include <gtest/gtest.h>

#include <thread>

#include <set>

#include "core/cpu/onednn.h"
#include "core/raw.h"
#include "layers/layers.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

TEST(Zoo, HasTheParameterCountsOfItsPapers) {
  const std::vector<std::pair<std::string, std::int64_t>> expected = {
      {"lenet", 61706},         {"hdc", 1149010},       {"hdc-2.5mb", 648010},
      {"alexnet-32", 23272266}, {"vgg16-32", 15253578}, {"resnet20", 269722},
      {"resnet32", 464154},     {"resnet44", 658586},   {"resnet56", 853018},
      {"lstm-small", 4653200},  {"lstm-medium", 19780400}, {"lstm-large", 66034000},
      {"lstm-650", 13280400},   {"lstm-1500", 51034000}};
  ASSERT_EQ(models_of_zoo().size(), expected.size());
  for (const auto& [name, count] : expected) EXPECT_EQ(make_model(name)->parameter_count(), count) << name;
  EXPECT_EQ(make_model("lstm-1500", {.classes = 33278})->parameter_count(), 85974278);
}

std::set<std::string> names_of(const std::string& model) {
  std::set<std::string> names;
  const auto m = make_model(model);
  for (const auto& p : m->named_parameters()) names.insert(p.name);
  for (const auto& b : m->named_buffers()) names.insert(b.name);
  return names;
}

TEST(Zoo, UsesPyTorchsNames) {
  EXPECT_EQ(names_of("lenet"),
            (std::set<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias",
                                   "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"}));
  const auto hdc = names_of("hdc");
  EXPECT_EQ(hdc.size(), 10u);
  EXPECT_TRUE(hdc.count("fc5.bias"));
  const auto alexnet = names_of("alexnet-32");
  EXPECT_EQ(alexnet.size(), 16u);
  for (const char* n : {"features.0.weight", "features.3.weight", "features.6.weight", "features.8.weight",
                        "features.10.bias", "classifier.1.weight", "classifier.4.weight", "classifier.6.bias"})
    EXPECT_TRUE(alexnet.count(n)) << n;
  const auto vgg = names_of("vgg16-32");
  for (const char* n :
       {"features.0.weight", "features.1.running_mean", "features.7.weight", "features.40.weight", "features.41.weight",
        "features.41.num_batches_tracked", "classifier.0.weight", "classifier.2.weight", "classifier.4.bias"})
    EXPECT_TRUE(vgg.count(n)) << n;
  const auto resnet = names_of("resnet20");
  for (const char* n : {"conv1.weight", "bn1.weight", "layer1.0.conv1.weight", "layer2.0.bn2.running_var",
                        "layer3.2.conv2.weight", "layer3.2.bn2.bias", "fc.weight", "fc.bias"})
    EXPECT_TRUE(resnet.count(n)) << n;
  EXPECT_FALSE(resnet.count("conv1.bias"));
}

TEST(Zoo, MapsOneInputToTheClassesAskedFor) {
  NoGrad no_grad;
  for (const ModelInfo& info : models_of_zoo()) {
    if (info.name == "resnet44" || info.name == "resnet56" || info.reads_text())
      continue;  // longer, or tested elsewhere
    const auto model = make_model(info.name, {.classes = 7});
    model->initialize(1);
    model->eval();
    Tensor x = Tensor::zeros({2, info.input[0], info.input[1], info.input[2]});
    EXPECT_EQ((*model)(x).shape(), (Shape{2, 7})) << info.name;
  }
}

TEST(Zoo, MarksTheLayerThatMakesThePredictions) {
  for (const ModelInfo& info : models_of_zoo()) {
    if (info.reads_text()) continue;
    const auto parameters = make_model(info.name)->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(parameters[i]->info.output, i + 2 >= parameters.size()) << info.name << " " << parameters[i]->info.name;
  }
}

TEST(Zoo, SuggestsTheNearestNameForAnUnknownModel) {
  try {
    make_model("resnet2O");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("Did you mean 'resnet20'?"), std::string::npos) << e.what();
  }
}

/// One training step of a model on random images; returns the loss.
float step(Module& model, ParameterArena& arena, const ModelInfo& info, std::int64_t batch, Device device) {
  std::vector<float> values(static_cast<std::size_t>(batch * info.input.elements()));
  Random random(3, Purpose::test);
  for (float& v : values) v = random.normal();
  std::vector<std::int64_t> labels(info.reads_text() ? values.size() : static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i) % info.classes;
  const Shape targets{static_cast<std::int64_t>(labels.size())};
  const Tensor x = info.reads_text()
                       ? Tensor::of({info.input[0], batch}, labels, device)
                       : Tensor::of({batch, info.input[0], info.input[1], info.input[2]}, values, device);
  arena.begin_step();
  const Tensor loss = CrossEntropy()(model(x), Tensor::of(targets, labels, device));
  arena.backward(loss);
  arena.finish_gradients();
  raw::axpy(arena.values(), -0.05f, arena.gradients());
  for (const auto& p : arena.parameters()) p->value().bump_version();
  return loss.item();
}

TEST(Zoo, TrainsOnADeviceWhoseMemoryTheHostMayNotTouch) {
  for (const char* name : {"lenet", "resnet20"}) {
    float losses[2][3];
    for (int d = 0; d < 2; ++d) {
      const Device device = d ? kTrap : kCpu;
      const auto model = make_model(name);
      model->initialize(5);
      model->to(device);
      ParameterArena arena(model->parameters(), device);
      for (float& loss : losses[d]) loss = step(*model, arena, model_info(name), 4, device);
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(losses[0][i], losses[1][i]) << name;
    EXPECT_LT(losses[0][2], losses[0][0]) << name;
  }
}

TEST(TrapDeviceDeathTest, FaultsWhenTheHostTouchesItsMemory) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Tensor x = Tensor::zeros({16}, DType::f32, kTrap);
  EXPECT_DEATH(*static_cast<volatile float*>(x.data<float>()) = 1.0f, "");
}

TEST(Zoo, NeverFallsToAReferenceKernel) {
  // In a thread of their own: the list of a thread is what it has made, and other tests make odd convolutions.
  std::thread([] {
    for (const char* name : {"lenet", "hdc", "alexnet-32", "vgg16-32", "resnet20", "lstm-small"}) {
      const auto model = make_model(name);
      model->initialize(5);
      ParameterArena arena(model->parameters());
      step(*model, arena, model_info(name), 2, kCpu);
      for (const auto& p : arena.parameters())
        if (p->info.shape.rank() == 2) p->set_chunk_rows(48);
      step(*model, arena, model_info(name), 2, kCpu);
      for (const auto& made : cpu::onednn_implementations())
        EXPECT_EQ(made.name.find("ref"), std::string::npos) << name << ": " << made.what << " is " << made.name;
    }
    EXPECT_FALSE(cpu::onednn_implementations().empty());
  }).join();
}

}  // namespace
}  // namespace laconic
