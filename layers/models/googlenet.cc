#include "layers/layers.h"
#include "layers/models/models.h"

namespace laconic::models {
namespace {

using Options = GoogLeNetOptions;

/// A convolution and what follows it, named "conv" and "bn".
std::shared_ptr<Sequential> conv(const Options& o, Conv2d::Options c) {
  c.bias = !o.batch_norm;
  c.init = o.batch_norm ? init::normal(0.01f) : init::xavier(std::int64_t{c.in} * c.kernel * c.kernel);
  c.init_bias = init::constant(0.2f);
  Layers layers{{"conv", make<Conv2d>(c)}};
  if (o.batch_norm) layers.emplace_back("bn", make<BatchNorm2d>({.channels = c.out, .epsilon = 1e-3f}));
  layers.emplace_back("relu", make<ReLU>());
  return sequential(layers);
}

std::shared_ptr<Linear> linear(const Options& o, int in, int out, float bias, bool output = false) {
  return make<Linear>({.in = in,
                       .out = out,
                       .output = output,
                       .init = o.batch_norm ? init::normal(0.01f) : init::xavier(in),
                       .init_bias = o.batch_norm ? nullptr : init::constant(bias)});
}

std::shared_ptr<Module> pool(int kernel = 3) {
  return make<MaxPool2d>({.kernel = kernel, .stride = 2, .ceil_mode = true});
}

/// Four branches side by side: 1x1; 1x1 and 3x3; 1x1 and 5x5 (or 3x3); pooling and 1x1.
struct Widths {
  int in = 0, one = 0, reduce3 = 0, three = 0, reduce5 = 0, five = 0, pool = 0;
  int out() const { return one + three + five + pool; }
};
std::shared_ptr<Module> inception(const Options& o, const Widths& w) {
  const int large = o.batch_norm ? 3 : 5;
  const auto reduce = [&](int out) { return conv(o, {.in = w.in, .out = out, .kernel = 1}); };
  return std::make_shared<Concat>(Layers{
      {"branch1", reduce(w.one)},
      {"branch2", sequential({reduce(w.reduce3), conv(o, {.in = w.reduce3, .out = w.three, .kernel = 3, .pad = 1})})},
      {"branch3",
       sequential({reduce(w.reduce5), conv(o, {.in = w.reduce5, .out = w.five, .kernel = large, .pad = large / 2})})},
      {"branch4",
       sequential({make<MaxPool2d>({.kernel = 3, .stride = 1, .pad = 1, .ceil_mode = true}), reduce(w.pool)})}});
}

/// Predicts from an inner layer: average to 4x4, 1x1 convolution, two linear layers.
std::shared_ptr<Sequential> head(const Options& o, int in) {
  Layers layers;
  if (!o.batch_norm) layers.emplace_back("window", make<AvgPool2d>({.kernel = 5, .stride = 3}));  // 4x4 of 14x14
  layers.insert(layers.end(), {{"avgpool", make<AdaptiveAvgPool2d>({.out_h = 4, .out_w = 4})},
                               {"conv", conv(o, {.in = in, .out = 128, .kernel = 1})},
                               {"flatten", make<Flatten>()},
                               {"fc1", linear(o, 128 * 4 * 4, 1024, 0.2f)},
                               {"relu", make<ReLU>()},
                               {"dropout", make<Dropout>({.p = 0.7f})},
                               {"fc2", linear(o, 1024, o.classes, 0)}});
  return sequential(layers);
}

class GoogLeNet final : public Module, public HasAuxiliaryHeads {
 public:
  explicit GoogLeNet(const Options& o);
  Outputs outputs(const Tensor& x) override;
  float auxiliary_weight() const override { return 0.3f; }
  void checkpoint_activations(bool on = true) override;

 private:
  Tensor forward(const Tensor& x) override;
  /// Layers of this model's own, that run one after another.
  std::shared_ptr<Sequential> part(const Layers& layers);

  std::shared_ptr<Sequential> to_4a_, to_4d_, rest_;
  std::vector<std::shared_ptr<Sequential>> heads_;  // none, or behind inception4a and inception4d
};

GoogLeNet::GoogLeNet(const Options& o) {
  const auto norm = [] { return make<LocalResponseNorm>({.size = 5, .alpha = 1e-4f, .beta = 0.75f, .k = 1}); };
  Layers layers{{"conv1", conv(o, {.in = 3, .out = 64, .kernel = 7, .stride = 2, .pad = 3})}, {"maxpool1", pool()}};
  if (!o.batch_norm) layers.emplace_back("norm1", norm());
  layers.insert(layers.end(), {{"conv2", conv(o, {.in = 64, .out = 64, .kernel = 1})},
                               {"conv3", conv(o, {.in = 64, .out = 192, .kernel = 3, .pad = 1})}});
  if (!o.batch_norm) layers.emplace_back("norm2", norm());
  layers.emplace_back("maxpool2", pool());
  int width = 192;
  const auto add = [&](const char* name, Widths w) {
    w.in = width;
    layers.emplace_back(name, inception(o, w));
    width = w.out();
  };
  add("inception3a", {.one = 64, .reduce3 = 96, .three = 128, .reduce5 = 16, .five = 32, .pool = 32});
  add("inception3b", {.one = 128, .reduce3 = 128, .three = 192, .reduce5 = 32, .five = 96, .pool = 64});
  layers.emplace_back("maxpool3", pool());
  add("inception4a", {.one = 192, .reduce3 = 96, .three = 208, .reduce5 = 16, .five = 48, .pool = 64});
  to_4a_ = part(std::exchange(layers, {}));
  if (o.auxiliary_heads) heads_.push_back(child("aux1", head(o, width)));
  add("inception4b", {.one = 160, .reduce3 = 112, .three = 224, .reduce5 = 24, .five = 64, .pool = 64});
  add("inception4c", {.one = 128, .reduce3 = 128, .three = 256, .reduce5 = 24, .five = 64, .pool = 64});
  add("inception4d", {.one = 112, .reduce3 = 144, .three = 288, .reduce5 = 32, .five = 64, .pool = 64});
  to_4d_ = part(std::exchange(layers, {}));
  if (o.auxiliary_heads) heads_.push_back(child("aux2", head(o, width)));
  add("inception4e", {.one = 256, .reduce3 = 160, .three = 320, .reduce5 = 32, .five = 128, .pool = 128});
  layers.emplace_back("maxpool4", pool(o.batch_norm ? 2 : 3));
  add("inception5a", {.one = 256, .reduce3 = 160, .three = 320, .reduce5 = 32, .five = 128, .pool = 128});
  add("inception5b", {.one = 384, .reduce3 = 192, .three = 384, .reduce5 = 48, .five = 128, .pool = 128});
  layers.insert(layers.end(), {{"avgpool", make<AdaptiveAvgPool2d>({})},
                               {"flatten", make<Flatten>()},
                               {"dropout", make<Dropout>({.p = o.batch_norm ? 0.2f : 0.4f})},
                               {"fc", linear(o, width, o.classes, 0, true)}});
  rest_ = part(layers);
}

std::shared_ptr<Sequential> GoogLeNet::part(const Layers& layers) {
  for (const auto& [name, layer] : layers) child(name, layer);
  return sequential(layers);
}

Tensor GoogLeNet::forward(const Tensor& x) { return (*rest_)((*to_4d_)((*to_4a_)(x))); }

HasAuxiliaryHeads::Outputs GoogLeNet::outputs(const Tensor& x) {
  if (heads_.empty()) return {(*this)(x), {}};
  Outputs all;
  const Tensor a = (*to_4a_)(x);
  all.auxiliary.push_back((*heads_[0])(a));
  const Tensor d = (*to_4d_)(a);
  all.auxiliary.push_back((*heads_[1])(d));
  all.logits = (*rest_)(d);
  return all;
}

void GoogLeNet::checkpoint_activations(bool on) {
  for (const auto& p : {to_4a_, to_4d_, rest_}) p->checkpoint_activations(on);
}

}  // namespace

std::shared_ptr<Module> googlenet(const GoogLeNetOptions& options) { return std::make_shared<GoogLeNet>(options); }

}  // namespace laconic::models
