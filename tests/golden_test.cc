// Every layer and loss against the values that PyTorch computed (tests/golden/layers.py), in every layout, on every
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/raw.h"
#include "core/state.h"
#include "layers/layers.h"
#include "tests/cuda_devices.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

using nlohmann::json;

/// What has no layer of its own.
class LayerOf final : public Module {
 public:
  explicit LayerOf(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}

 protected:
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

std::shared_ptr<Module> build(const std::string& layer, const json& o) {
  const auto number = [&](const char* name, int otherwise) { return o.value(name, otherwise); };
  const auto real = [&](const char* name, double otherwise) { return static_cast<float>(o.value(name, otherwise)); };
  if (layer == "Conv2d")
    return make<Conv2d>({.in = o.at("in"),
                         .out = o.at("out"),
                         .kernel = o.at("kernel"),
                         .stride = number("stride", 1),
                         .pad = number("pad", 0),
                         .dilation = number("dilation", 1),
                         .groups = number("groups", 1),
                         .bias = o.value("bias", true)});
  if (layer == "Linear") return make<Linear>({.in = o.at("in"), .out = o.at("out"), .bias = o.at("bias")});
  if (layer == "BatchNorm1d") return make<BatchNorm1d>({.channels = o.at("channels")});
  if (layer == "BatchNorm2d")
    return make<BatchNorm2d>(
        {.channels = o.at("channels"), .momentum = real("momentum", 0.1), .epsilon = real("epsilon", 1e-5)});
  if (layer == "MaxPool2d")
    return make<MaxPool2d>(
        {.kernel = o.at("kernel"), .stride = o.at("stride"), .pad = o.at("pad"), .ceil_mode = o.at("ceil_mode")});
  if (layer == "AvgPool2d")
    return make<AvgPool2d>({.kernel = o.at("kernel"),
                            .stride = o.at("stride"),
                            .pad = o.at("pad"),
                            .ceil_mode = o.at("ceil_mode"),
                            .count_include_pad = o.at("count_include_pad")});
  if (layer == "AdaptiveAvgPool2d") return make<AdaptiveAvgPool2d>({.out_h = o.at("out_h"), .out_w = o.at("out_w")});
  if (layer == "ReLU") return make<ReLU>();
  if (layer == "Tanh") return make<Tanh>();
  if (layer == "Sigmoid") return make<Sigmoid>();
  if (layer == "Flatten") return make<Flatten>();
  if (layer == "GELU") return make<GELU>({.tanh = o.value("tanh", false)});
  if (layer == "SiLU") return make<SiLU>();
  if (layer == "LeakyReLU") return make<LeakyReLU>({.slope = real("slope", 0)});
  if (layer == "Softmax") return make<Softmax>({.dim = o.at("dim")});
  if (layer == "LayerNorm") return make<LayerNorm>({.dim = o.at("dim"), .epsilon = real("epsilon", 0)});
  if (layer == "RMSNorm") return make<RMSNorm>({.dim = o.at("dim"), .epsilon = real("epsilon", 0)});
  if (layer == "CausalSelfAttention")
    return make<CausalSelfAttention>({.dim = o.at("dim"), .heads = o.at("heads"), .bias = o.at("bias")});
  if (layer == "ConvTranspose2d")
    return make<ConvTranspose2d>({.in = o.at("in"),
                                  .out = o.at("out"),
                                  .kernel = o.at("kernel"),
                                  .stride = number("stride", 1),
                                  .pad = number("pad", 0),
                                  .output_pad = number("output_pad", 0),
                                  .dilation = number("dilation", 1),
                                  .groups = number("groups", 1),
                                  .bias = o.value("bias", true)});
  if (layer == "Upsample") return make<Upsample>({.scale = o.at("scale"), .bilinear = o.at("bilinear")});
  if (layer == "LocalResponseNorm")
    return make<LocalResponseNorm>(
        {.size = o.at("size"), .alpha = real("alpha", 0), .beta = real("beta", 0), .k = real("k", 0)});
  if (layer == "PadShortcut") {
    const int channels = o.at("channels");
    return std::make_shared<LayerOf>([channels](const Tensor& x) { return ops::pad_shortcut(x, channels); });
  }
  if (layer == "AddRotated") return std::make_shared<Add>(Layers{make<Identity>(), make<Tanh>()});
  if (layer == "ConcatTwice") return std::make_shared<Concat>(Layers{make<Identity>(), make<Tanh>(), make<Identity>()});
  throw DataError("golden: unknown layer " + layer);
}

class Golden : public ::testing::Test {
 protected:
  Golden()
      : file_(load_safetensors(std::string(LACONIC_SOURCE) + "/tests/golden/layers.safetensors")),
        cases_(json::parse(file_.text("cases"))) {}

  /// Runs all cases whose layer is one of `layers` in every layout that x and dy can have.
  void run(const std::vector<std::string>& layers, float tolerance = 2e-5f) {
    int count = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const std::string layer = cases_[i].at("layer");
      if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
      const StateDict values = file_.part(std::to_string(i) + ".");
      for (const Device device : with_cuda())
        for (Layout x : layouts(values.at("x").shape(), device))
          for (Layout dy : layouts(values.at("dy").shape(), device)) {
            const std::string what = concat("case ", i, " ", layer, cases_[i].at("options").dump(), " x ",
                                            values.at("x").shape(), " ", x, ", dy ", dy, " on ", device);
            SCOPED_TRACE(what);
            compare(cases_[i], values, x, dy, device, tolerance);
            ++count;
          }
    }
    EXPECT_GT(count, 0);
  }

  static std::vector<Layout> layouts(const Shape& s, Device device) {
    if (s.rank() != 4) return {Layout::plain};
    if (s[1] % 16 == 0 && device == kCpu) return {Layout::plain, Layout::channels_last, Layout::blocked16};
    return {Layout::plain, Layout::channels_last};
  }

  void compare(const json& c, const StateDict& v, Layout x_layout, Layout dy_layout, Device device, float tolerance) {
    const json& options = c.at("options");
    auto layer = build(c.at("layer"), options);
    layer->train(c.at("training"));
    const ParameterArena arena(layer->parameters(), device);
    layer->to(device);
    for (const auto& p : layer->named_parameters()) p.parameter->value().copy_from(v.at("p." + p.name));
    for (const auto& b : layer->named_buffers()) b.tensor.copy_from(v.at("b." + b.name));
    auto leaf = std::make_shared<Leaf>(), residual_leaf = std::make_shared<Leaf>();
    const Tensor x = with_gradient(copied(raw::to_layout(v.at("x"), x_layout), device), leaf);
    Tensor y;
    if (options.value("residual", false)) {
      const Tensor r = with_gradient(copied(raw::to_layout(v.at("r"), x_layout), device), residual_leaf);
      y = dynamic_cast<BatchNorm&>(*layer).forward_add_relu(x, r);
    } else if (options.value("relu", false)) {
      y = dynamic_cast<FusesRelu&>(*layer).forward_relu(x);
    } else {
      y = (*layer)(x);
    }
    expect_close(y, v.at("y"), tolerance, "y");
    const Tensor dy = copied(raw::to_layout(v.at("dy"), dy_layout), device);
    with_upstream(y, dy).backward();
    expect_close(dy, v.at("dy"), 0, "dy, which others hold, was overwritten");
    expect_close(x, v.at("x"), 0, "x was overwritten");
    expect_close(leaf->grad, v.at("dx"), tolerance, "dx");
    if (options.value("residual", false)) expect_close(residual_leaf->grad, v.at("dr"), tolerance, "dr");
    for (const auto& p : layer->named_parameters())
      expect_close(p.parameter->grad(), v.at("g." + p.name), tolerance, "gradient of " + p.name);
    for (const auto& b : layer->named_buffers())
      expect_close(b.tensor, v.at("a." + b.name), tolerance, b.name + " afterwards");
  }

  StateDict file_;
  json cases_;
};

TEST_F(Golden, Convolution) { run({"Conv2d"}, 2e-4f); }  // Winograd's transforms cost two digits
TEST_F(Golden, Linear) { run({"Linear"}); }
TEST_F(Golden, BatchNorm) { run({"BatchNorm1d", "BatchNorm2d"}, 5e-5f); }
TEST_F(Golden, MaxPoolAlsoAmongEqualValues) { run({"MaxPool2d"}, 1e-6f); }
TEST_F(Golden, AveragePools) { run({"AvgPool2d", "AdaptiveAvgPool2d"}, 1e-6f); }
TEST_F(Golden, Activations) { run({"ReLU", "Tanh", "Sigmoid", "GELU", "SiLU", "LeakyReLU", "Softmax"}, 1e-6f); }
TEST_F(Golden, LayerNorm) { run({"LayerNorm", "RMSNorm"}); }
TEST_F(Golden, Attention) { run({"CausalSelfAttention"}); }
TEST_F(Golden, TransposedConvolution) { run({"ConvTranspose2d"}, 2e-4f); }
TEST_F(Golden, Upsample) { run({"Upsample"}, 2e-6f); }
TEST_F(Golden, Flatten) { run({"Flatten"}, 0); }
TEST_F(Golden, LocalResponseNorm) { run({"LocalResponseNorm"}, 2e-6f); }
TEST_F(Golden, ShortcutOptionA) { run({"PadShortcut"}, 0); }
TEST_F(Golden, AddAndConcat) { run({"AddRotated", "ConcatTwice"}, 1e-6f); }

TEST_F(Golden, Losses) {
  int count = 0;
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    const std::string layer = cases_[i].at("layer");
    if (layer != "CrossEntropy" && layer != "MSE") continue;
    ++count;
    const StateDict v = file_.part(std::to_string(i) + ".");
    for (const Device device : with_cuda()) {
      SCOPED_TRACE(concat("case ", i, " on ", device));
      auto leaf = std::make_shared<Leaf>();
      const Tensor x = with_gradient(copied(v.at("x"), device), leaf);
      const auto there = [&](const char* name) { return copied(v.at(name), device); };
      const Tensor loss =
          layer == "MSE"
              ? MSE()(x, there("target"))
              : CrossEntropy({.label_smoothing = cases_[i]["options"].at("label_smoothing")})(x, there("labels"));
      expect_close(loss, v.at("y"), 2e-6f, "loss");
      loss.backward();
      expect_close(leaf->grad, v.at("dx"), 1e-6f, "dx");
      if (layer == "CrossEntropy" && cases_[i]["options"].at("label_smoothing") == 0) {
        EXPECT_NEAR(ops::sum_of_cross_entropy(x, there("labels")) / static_cast<double>(x.dim(0)), loss.item(),
                    2e-5 * std::max(1.0f, loss.item()));
      }
    }
  }
  EXPECT_EQ(count, 7);
}

}  // namespace
}  // namespace laconic
