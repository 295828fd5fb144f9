// The large models against the values that PyTorch computed (tests/golden/models.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/state.h"
#include "layers/layers.h"
#include "layers/models/models.h"
#include "layers/models/zoo.h"
#include "tests/cuda_devices.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

using nlohmann::json;

/// tests/golden/models.py, values(): the same bits.
std::vector<float> values(const std::string& name, std::int64_t n, double scale) {
  std::uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<float> v(static_cast<std::size_t>(n));
  const auto factor = static_cast<float>(scale);
  for (std::size_t i = 0; i < v.size(); ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i) * 0x9E3779B1u + seed;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    h ^= h >> 16;
    v[i] = (static_cast<float>(h >> 8) * 0x1p-23f - 1.0f) * factor;
  }
  return v;
}

void fill(const std::string& name, const Tensor& t) {
  const auto ends = [&](const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  if (ends("num_batches_tracked")) return;
  std::vector<float> v;
  float offset = 0;
  if (t.rank() > 1) {
    v = values(name, t.elements(), std::sqrt(6.0 / static_cast<double>(t.elements() / t.dim(0))));
  } else if (ends("running_var")) {
    v = values(name, t.elements(), 0.25), offset = 1;
  } else if (ends("weight")) {
    v = values(name, t.elements(), 0.25), offset = 0.75f;
  } else {
    v = values(name, t.elements(), 0.1);
  }
  for (float& x : v) x += offset;
  t.copy_from(Tensor::of(t.shape(), v));
}

std::shared_ptr<Module> build(const json& c) {
  const std::string name = c.at("model");
  const int classes = c.at("classes"), hidden = c.at("hidden");
  const models::AlexNetOptions alexnet{.classes = classes, .hidden = hidden};
  if (name == "alexnet") return models::alexnet(alexnet);
  if (name == "alexnet-original") return models::alexnet_original(alexnet);
  if (name == "alexnet-ungrouped") return models::alexnet_ungrouped(alexnet);
  if (name == "vgg16" || name == "vgg16_bn")
    return models::vgg16({.batch_norm = name == "vgg16_bn", .classes = classes, .hidden = hidden});
  return make_model(name, {.classes = classes,
                           .resnet_v1 = c.value("resnet_v1", false),
                           .auxiliary_heads = c.value("auxiliary_heads", false)});
}

/// As in training; frozen: but for batch norms, which go by their running statistics.
Tensor loss_of(Module& model, const Tensor& x, const Tensor& labels, bool frozen) {
  model.train(!frozen);
  if (!frozen) return classification_loss(model, x, labels);
  auto* heads = dynamic_cast<HasAuxiliaryHeads*>(&model);
  const auto outputs = heads ? heads->outputs(x) : HasAuxiliaryHeads::Outputs{model(x), {}};
  Tensor loss = CrossEntropy()(outputs.logits, labels);
  for (const Tensor& logits : outputs.auxiliary)
    loss = ops::add(loss, ops::multiply(CrossEntropy()(logits, labels), Tensor::full({1}, 0.3f, x.device())));
  return loss;
}

class ZooGolden : public ::testing::TestWithParam<std::size_t> {
 public:
  static const StateDict& file() {
    static const StateDict kFile = load_safetensors(std::string(LACONIC_SOURCE) + "/tests/golden/models.safetensors");
    return kFile;
  }
  static const json& cases() {
    static const json kCases = json::parse(file().text("cases"));
    return kCases;
  }
};

void check(const json& c, const StateDict& v, Device device) {
  SCOPED_TRACE(concat(c.at("model").get<std::string>(), " on ", device));
  const auto model = build(c);
  const ParameterArena arena(model->parameters(), device);
  model->to(device);
  ForwardContext no_dropout;
  no_dropout.dropout = false;
  model->set_context(&no_dropout);
  std::map<std::string, std::shared_ptr<Parameter>> parameters;
  for (const auto& p : model->named_parameters()) {
    fill(p.name, p.parameter->value());
    parameters[p.name] = p.parameter;
  }
  for (const auto& b : model->named_buffers()) fill(b.name, b.tensor);

  const std::int64_t batch = c.at("batch"), side = c.at("side"), classes = c.at("classes");
  const Tensor x = Tensor::of({batch, 3, side, side}, values(c.at("images"), batch * 3 * side * side, 1.7), device);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < batch; ++i) labels.push_back(i * 3 % classes);
  model->eval();
  {
    const NoGrad no_grad;
    expect_close((*model)(x), v.at("logits"), 1e-4f, "logits");
  }
  const Tensor loss = loss_of(*model, x, Tensor::of({batch}, labels, device), c.value("frozen", false));
  expect_close(loss, v.at("loss"), 1e-4f, "loss");
  loss.backward();

  // Equal names; and each gradient's length, direction and first element.
  ASSERT_EQ(parameters.size(), c.at("parameters").size());
  const std::vector<float> expected = v.at("gradients").to_vector();
  // Rounding alone: images are chosen to stay away from kinks of ReLU and max-pooling (tests/golden/models.py). Sums in
  // another order, as Winograd's, lose some times more than PyTorch's; what batch norms amplify they amplify of both.
  EXPECT_LT(c.at("rounding"), 5e-5);
  const float part = 1e-5f + 5 * c.at("rounding").get<float>();
  float longest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) longest = std::max(longest, expected[3 * i]);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string name = c.at("parameters")[i];
    ASSERT_EQ(parameters.count(name), 1u) << name;
    const Tensor& gradient = parameters.at(name)->grad();
    ASSERT_TRUE(gradient.defined()) << name;
    const std::vector<float> g = gradient.to_vector(), with = values(name, gradient.elements(), 1);
    double squares = 0, product = 0;
    for (std::size_t k = 0; k < g.size(); ++k)
      squares += double{g[k]} * double{g[k]}, product += double{g[k]} * double{with[k]};
    const double norm = expected[3 * i], tolerance = part * (norm + 1e-3 * longest);
    EXPECT_NEAR(std::sqrt(squares), norm, tolerance) << name;
    EXPECT_NEAR(product, expected[3 * i + 1], tolerance) << name;
    EXPECT_NEAR(g[0], expected[3 * i + 2], tolerance) << name;
  }
}

TEST_P(ZooGolden, GivesPyTorchsOutputsAndGradients) {
  const StateDict v = file().part(std::to_string(GetParam()) + ".");
  for (const Device device : with_cuda()) check(cases().at(GetParam()), v, device);
}

INSTANTIATE_TEST_SUITE_P(Models, ZooGolden, ::testing::Range<std::size_t>(0, ZooGolden::cases().size()),
                         [](const auto& info) {
                           std::string name =
                               laconic::concat(info.param, "_", ZooGolden::cases()[info.param].at("model"));
                           for (char& ch : name)
                             if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
                           return name;
                         });

}  // namespace
}  // namespace laconic
