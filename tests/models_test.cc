// The zoo: exactly the models of the papers, under PyTorch's names.
#include "layers/models/models.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "core/cpu/onednn.h"
#include "core/raw.h"
#include "layers/layers.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/ghosts.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

TEST(Zoo, HasTheParameterCountsOfItsPapers) {
  const std::vector<std::pair<std::string, std::int64_t>> expected = {{"lenet", 61706},
                                                                      {"hdc", 1149010},
                                                                      {"hdc-2.5mb", 648010},
                                                                      {"alexnet-32", 23272266},
                                                                      {"vgg16-32", 15253578},
                                                                      {"resnet20", 269722},
                                                                      {"resnet32", 464154},
                                                                      {"resnet44", 658586},
                                                                      {"resnet56", 853018},
                                                                      {"alexnet", 61100840},
                                                                      {"alexnet-original", 60965224},
                                                                      {"alexnet-ungrouped", 62378344},
                                                                      {"vgg16", 138357544},
                                                                      {"vgg16_bn", 138365992},
                                                                      {"resnet18", 11689512},
                                                                      {"resnet34", 21797672},
                                                                      {"resnet50", 25557032},
                                                                      {"resnet101", 44549160},
                                                                      {"googlenet", 6998552},
                                                                      {"googlenet-torchvision", 6624904},
                                                                      {"lstm-small", 4653200},
                                                                      {"lstm-medium", 19780400},
                                                                      {"lstm-large", 66034000},
                                                                      {"lstm-650", 13280400},
                                                                      {"lstm-1500", 51034000},
                                                                      {"gpt-4x128", 809856},
                                                                      {"gpt-6x384", 10770816},
                                                                      {"gpt2", 124439808}};
  ASSERT_EQ(models_of_zoo().size(), expected.size());
  for (const auto& [name, count] : expected) EXPECT_EQ(make_model(name)->parameter_count(), count) << name;
  EXPECT_EQ(make_model("lstm-1500", {.classes = 33278})->parameter_count(), 85974278);
  EXPECT_EQ(make_model("googlenet", {.auxiliary_heads = true})->parameter_count(), 13378280);
  EXPECT_EQ(make_model("googlenet-torchvision", {.auxiliary_heads = true})->parameter_count(), 13004888);
  EXPECT_EQ(make_model("resnet50", {.resnet_v1 = true})->parameter_count(), 25557032);
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
    const auto model = make_model(info.name, {.classes = 7});
    const std::int64_t rows = info.reads_text() ? 2 * info.input[0] : 2;
    EXPECT_EQ((*model)(ghost_batch(info.input, 2).x).shape(), (Shape{rows, 7})) << info.name;
  }
  for (const char* name : {"lenet", "hdc", "alexnet-32", "vgg16-32", "resnet20"}) {
    const auto model = make_model(name, {.classes = 7});
    model->initialize(1);
    model->eval();
    const Shape& input = model_info(name).input;
    EXPECT_EQ((*model)(Tensor::zeros({2, input[0], input[1], input[2]})).shape(), (Shape{2, 7})) << name;
  }
}

TEST(Zoo, TakesSmallerImagesWhereItsPoolingAllows) {
  NoGrad no_grad;
  const auto shape = [](const char* name, std::int64_t side, bool heads = false) {
    const auto model = make_model(name, {.auxiliary_heads = heads});
    return classification_loss(*model, ghost_batch({3, side, side}, 2).x, Tensor::zeros({2}, DType::i64)).shape();
  };
  for (const auto& [name, side] : std::vector<std::pair<const char*, std::int64_t>>{
           {"alexnet", 63}, {"alexnet-original", 63}, {"alexnet-ungrouped", 67}, {"vgg16", 32}, {"resnet18", 32},
           {"googlenet", 47}, {"googlenet-torchvision", 33}})
    EXPECT_EQ(shape(name, side), (Shape{1})) << name;
  EXPECT_EQ(shape("googlenet", 80, true), (Shape{1}));
  EXPECT_THROW(shape("alexnet", 62), ShapeError);
}

TEST(Zoo, RefusesOptionsThatAModelDoesNotHave) {
  EXPECT_THROW(make_model("resnet18", {.resnet_v1 = true}), UsageError);
  EXPECT_THROW(make_model("vgg16", {.auxiliary_heads = true}), UsageError);
}

TEST(Zoo, PutsTheStrideWhereResNetsVersionSays) {
  const auto widths = [](bool v1) {  // of the images behind the convolutions of the first block that halves them
    std::map<std::string, std::int64_t> sides;
    const ForwardWatch watch = [&](const std::string& path, const Tensor& y) { sides[path] = y.dim(2); };
    const NoGrad no_grad;
    const auto model = make_model("resnet50", {.resnet_v1 = v1});
    model->set_watch(&watch);
    (*model)(ghost_batch({3, 224, 224}, 1).x);
    return std::pair{sides.at("layer2.0.conv1"), sides.at("layer2.0.conv2")};
  };
  EXPECT_EQ(widths(false), (std::pair<std::int64_t, std::int64_t>{56, 28}));
  EXPECT_EQ(widths(true), (std::pair<std::int64_t, std::int64_t>{28, 28}));
}

TEST(Zoo, KnowsTheWorkOfItsLayersWithoutComputing) {
  const auto multiply_adds = [](const char* name) {
    double flop = 0;
    for (const LayerSummary& l : summarize(*make_model(name), ghost_batch(model_info(name).input, 1).x)) flop += l.flop;
    return flop / 2;
  };
  EXPECT_EQ(multiply_adds("alexnet"), 714188480);
  EXPECT_EQ(multiply_adds("vgg16"), 15470264320);  // the paper's and torchvision's 15.5 G
  EXPECT_EQ(multiply_adds("resnet18"), 1814073344);
  EXPECT_EQ(multiply_adds("resnet50"), 4089184256);
  EXPECT_EQ(multiply_adds("lenet"), 28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10);
  EXPECT_EQ(multiply_adds("lstm-small"), 20.0 * (4 * 4 * 200 * 200 + 200 * 10000));
  EXPECT_EQ(multiply_adds("lstm-650"), 35.0 * (4 * 4 * 650 * 650 + 650 * 10000));  // the tied decoder too
}

TEST(Zoo, ListsItsLayersInTheOrderOfForward) {
  const auto model = make_model("alexnet-original");
  const auto layers = summarize(*model, ghost_batch({3, 224, 224}, 1).x);
  EXPECT_EQ(layers[0].name, "features.0");
  EXPECT_EQ(layers[0].kind, "Conv2d");
  EXPECT_EQ(layers[0].output, (Shape{1, 96, 55, 55}));
  EXPECT_EQ(layers[0].parameters, 34944);
  EXPECT_EQ(layers[0].flop, 2.0 * 96 * 55 * 55 * 363);
  EXPECT_EQ(layers[1].kind, "LocalResponseNorm");
  EXPECT_EQ(layers[3].parameters, 307456);  // two groups: half the weights
  std::int64_t sum = 0;
  for (const LayerSummary& l : layers) sum += l.parameters;
  EXPECT_EQ(sum, model->parameter_count());
  EXPECT_EQ(layers.back().name, "classifier.6");
  EXPECT_EQ(layers.back().output, (Shape{1, 1000}));

  // HybridAR prints those of each layer.
  std::vector<std::int64_t> ungrouped;
  for (const LayerSummary& l : summarize(*make_model("alexnet-ungrouped"), ghost_batch({3, 227, 227}, 1).x))
    if (l.parameters) ungrouped.push_back(l.parameters);
  EXPECT_EQ(ungrouped, (std::vector<std::int64_t>{34944, 614656, 885120, 1327488, 884992, 37752832, 16781312,
                                                  4097000}));
}

TEST(Summary, IsATableWithWhatIsFrozen) {
  const auto fixed = make<Linear>({.in = 3, .out = 40});
  const auto model = sequential({fixed, make<Tanh>(), make<Linear>({.in = 40, .out = 5, .bias = false})});
  const Tensor x = Tensor::zeros({2, 3});
  const std::string table =
      "layer  kind    output   parameters\n"
      "0      Linear  [2, 40]         160\n"
      "1      Tanh    [2, 40]            \n"
      "2      Linear  [2, 5]          200\n"
      "                               360\n";
  EXPECT_EQ(summary(*model, x), table);
  fixed->freeze();
  EXPECT_EQ(summary(*model, x), table + "160 of them are frozen.\n");
}

TEST(Summary, OfOneLayerHasItsParameters) {
  Linear layer({.in = 3, .out = 4});
  const auto layers = summarize(layer, Tensor::zeros({2, 3}));
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].parameters, 16);
  EXPECT_EQ(layers[0].flop, 2 * 2 * 12);
}

TEST(Zoo, LeavesAModelAsItWasWhenItSummarizesIt) {
  const auto model = make_model("resnet20");
  model->initialize(1);
  const auto batches = [&] {
    for (const auto& b : model->named_buffers())
      if (b.name == "bn1.num_batches_tracked") return b.tensor.to_vector()[0];
    return -1.0f;
  };
  summarize(*model, ghost_batch({3, 32, 32}, 1).x);
  peak_of_step(*model, {3, 32, 32}, 2);
  EXPECT_TRUE(model->training());
  EXPECT_EQ(batches(), 0);
}

TEST(Zoo, CountsTheBytesBetweenLayersExactly) {
  // Two samples of a linear layer 3 -> 4, its ReLU in the same pass, and a linear layer 4 -> 5.
  const auto model = sequential({make<Linear>({.in = 3, .out = 4}), make<ReLU>(), make<Linear>({.in = 4, .out = 5})});
  class Flat final : public Module {
   public:
    explicit Flat(std::shared_ptr<Module> m) : m_(child("m", std::move(m))) {}

   protected:
    Tensor forward(const Tensor& x) override { return (*m_)(ops::flatten(x)); }

   private:
    std::shared_ptr<Module> m_;
  } flat(model);
  ParameterArena arena(flat.parameters());
  // Most in the backward of the last layer: its input and that one's gradient, its output's gradient, the loss.
  EXPECT_EQ(peak_of_step(flat, {3, 1, 1}, 2), 4u * (8 + 8 + 10 + 1));
}

TEST(Zoo, AuxiliaryHeadsCountWhileTrainingAlone) {
  const auto with = make_model("googlenet", {.classes = 5, .auxiliary_heads = true});
  const auto without = make_model("googlenet", {.classes = 5});
  with->initialize(1);
  std::map<std::string, Tensor> values;
  for (const auto& p : with->named_parameters()) values[p.name] = p.parameter->value();
  for (const auto& p : without->named_parameters()) p.parameter->value().copy_from(values.at(p.name));
  ForwardContext no_dropout;
  no_dropout.dropout = false;
  with->set_context(&no_dropout), without->set_context(&no_dropout);
  const NoGrad no_grad;
  const Tensor x = random_tensor({2, 3, 81, 81}, 4), labels = Tensor::of({2}, std::vector<std::int64_t>{1, 2});
  const float own = classification_loss(*without, x, labels).item();
  const auto outputs = dynamic_cast<HasAuxiliaryHeads&>(*with).outputs(x);
  ASSERT_EQ(outputs.auxiliary.size(), 2u);
  const float heads =
      CrossEntropy()(outputs.auxiliary[0], labels).item() + CrossEntropy()(outputs.auxiliary[1], labels).item();
  EXPECT_FLOAT_EQ(classification_loss(*with, x, labels).item(), own + 0.3f * heads);
  EXPECT_GT(heads, 0);
  with->eval();
  EXPECT_EQ(classification_loss(*with, x, labels).item(), own);
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
    EXPECT_NE(std::string(e.what()).find("did you mean resnet20?"), std::string::npos) << e.what();
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
  const Tensor loss = classification_loss(model, x, Tensor::of(targets, labels, device));
  arena.backward(loss);
  arena.finish_gradients();
  raw::axpy(arena.values(), -0.05f, arena.gradients());
  for (const auto& p : arena.parameters()) p->value().bump_version();
  return loss.item();
}

TEST(Zoo, TrainsOnADeviceWhoseMemoryTheHostMayNotTouch) {
  for (const char* name : {"lenet", "resnet20"}) {
    const auto train = [&](Device device) {
      const auto model = make_model(name);
      model->initialize(5);
      model->to(device);
      ParameterArena arena(model->parameters(), device);
      std::vector<float> losses;
      for (int i = 0; i < 3; ++i) losses.push_back(step(*model, arena, model_info(name), 4, device));
      return losses;
    };
    const std::vector<float> losses = train(kCpu);
    EXPECT_LT(losses[2], losses[0]) << name;
    EXPECT_EQ(train(kTrap), losses) << name;
    if (cuda_devices() == 0) continue;
    const std::vector<float> there = train(kCuda);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(there[i], losses[i], 1e-3f * losses[i]) << name;
    EXPECT_EQ(train(kCuda), there) << name << ": the same bits each time";
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
    const auto forbid = [](const std::string& name) {
      for (const auto& made : cpu::onednn_implementations())
        EXPECT_EQ(made.name.find("ref"), std::string::npos) << name << ": " << made.what << " is " << made.name;
    };
    // The large ones on images as small as they go, with narrow layers behind the convolutions where they may be.
    const auto try_small = [&](const std::string& name, const std::shared_ptr<Module>& model, std::int64_t side) {
      model->name_all();
      ParameterArena arena(model->parameters());
      raw::fill(arena.values(), 0.01f);
      step(*model, arena, {.name = name, .input = {3, side, side}, .classes = 10, .build = nullptr}, 2, kCpu);
      model->eval();
      const NoGrad no_grad;
      (*model)(Tensor::zeros({2, 3, side, side}));
      forbid(name);
    };
    for (const char* name : {"resnet18", "resnet50", "googlenet", "googlenet-torchvision"})
      try_small(name, make_model(name, {.classes = 10}), 65);
    try_small("resnet50 --resnet-v1", make_model("resnet50", {.classes = 10, .resnet_v1 = true}), 65);
    try_small("googlenet --auxiliary-heads", make_model("googlenet", {.classes = 10, .auxiliary_heads = true}), 97);
    for (const auto& build : {models::alexnet, models::alexnet_original, models::alexnet_ungrouped})
      try_small("AlexNet", build({.classes = 10, .hidden = 32}), 99);
    for (const bool batch_norm : {false, true})
      try_small("VGG-16", models::vgg16({.batch_norm = batch_norm, .classes = 10, .hidden = 32}), 33);
    for (const char* name : {"lenet", "hdc", "alexnet-32", "vgg16-32", "resnet20", "lstm-small"}) {
      const auto model = make_model(name);
      model->initialize(5);
      ParameterArena arena(model->parameters());
      step(*model, arena, model_info(name), 2, kCpu);
      for (const auto& p : arena.parameters())
        if (p->info.shape.rank() == 2) p->set_chunk_rows(48);
      step(*model, arena, model_info(name), 2, kCpu);
      forbid(name);
    }
    EXPECT_FALSE(cpu::onednn_implementations().empty());
  }).join();
}

}  // namespace
}  // namespace laconic
