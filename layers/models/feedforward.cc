#include "layers/layers.h"
#include "layers/models/models.h"

namespace laconic::models {
namespace {

constexpr MaxPool2d::Options kOverlapping{.kernel = 3, .stride = 2};

std::shared_ptr<Module> model(const Layers& features, const Layers& classifier) {
  return sequential({{"features", sequential(features)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 6, .out_w = 6})},  // it serves other sizes of images
                     {"flatten", make<Flatten>()},
                     {"classifier", sequential(classifier)}});
}

/// The convolutions of torchvision's single-column form. The first two, and the windows of the poolings, as given.
Layers single_column(const Conv2d::Options& first, const Conv2d::Options& second, const MaxPool2d::Options& window) {
  const Conv2d::Options convolutions[] = {first,
                                          second,
                                          {.in = 192, .out = 384, .kernel = 3, .pad = 1},
                                          {.in = 384, .out = 256, .kernel = 3, .pad = 1},
                                          {.in = 256, .out = 256, .kernel = 3, .pad = 1}};
  Layers layers;
  for (int i = 0; i < 5; ++i) {
    layers.insert(layers.end(), {make<Conv2d>(convolutions[i]), make<ReLU>()});
    if (i < 2 || i == 4) layers.push_back(make<MaxPool2d>(window));
  }
  return layers;
}

/// Its linear layers, on `in` features.
Layers classifier(int in, int hidden, int classes) {
  return {make<Dropout>({.p = 0.5f}),
          make<Linear>({.in = in, .out = hidden}),
          make<ReLU>(),
          make<Dropout>({.p = 0.5f}),
          make<Linear>({.in = hidden, .out = hidden}),
          make<ReLU>(),
          make<Linear>({.in = hidden, .out = classes, .output = true})};
}

/// Krizhevsky et al. 2012, section 5.
constexpr float kDeviation = 0.01f;

struct Published {
  int groups, pad;
  bool normalize;
};
std::shared_ptr<Module> published(const Published& p, const AlexNetOptions& o) {
  const auto conv = [&](Conv2d::Options c, float bias) {
    c.init = init::normal(kDeviation), c.init_bias = init::constant(bias);
    return make<Conv2d>(c);
  };
  const auto linear = [&](Linear::Options l, float bias) {
    l.init = init::normal(kDeviation), l.init_bias = init::constant(bias);
    return make<Linear>(l);
  };
  const auto pool = [] { return make<MaxPool2d>(kOverlapping); };
  Layers features;
  const auto add = [&](const Layers& layers) { features.insert(features.end(), layers.begin(), layers.end()); };
  const auto normalize = [&] {
    // The paper's alpha of 1e-4 is not divided by the size.
    if (p.normalize) add({make<LocalResponseNorm>({.size = 5, .alpha = 5e-4f, .beta = 0.75f, .k = 2})});
  };
  add({conv({.in = 3, .out = 96, .kernel = 11, .stride = 4, .pad = p.pad}, 0), make<ReLU>()});
  normalize();
  add({pool(), conv({.in = 96, .out = 256, .kernel = 5, .pad = 2, .groups = p.groups}, 1), make<ReLU>()});
  normalize();
  add({pool(), conv({.in = 256, .out = 384, .kernel = 3, .pad = 1}, 0), make<ReLU>(),
       conv({.in = 384, .out = 384, .kernel = 3, .pad = 1, .groups = p.groups}, 1), make<ReLU>(),
       conv({.in = 384, .out = 256, .kernel = 3, .pad = 1, .groups = p.groups}, 1), make<ReLU>(), pool()});
  return model(features, {linear({.in = 256 * 6 * 6, .out = o.hidden}, 1), make<ReLU>(), make<Dropout>({.p = 0.5f}),
                          linear({.in = o.hidden, .out = o.hidden}, 1), make<ReLU>(), make<Dropout>({.p = 0.5f}),
                          linear({.in = o.hidden, .out = o.classes, .output = true}, 0)});
}

}  // namespace

std::shared_ptr<Module> alexnet(const AlexNetOptions& o) {
  return model(single_column({.in = 3, .out = 64, .kernel = 11, .stride = 4, .pad = 2},
                             {.in = 64, .out = 192, .kernel = 5, .pad = 2}, kOverlapping),
               classifier(256 * 6 * 6, o.hidden, o.classes));
}

std::shared_ptr<Module> alexnet_original(const AlexNetOptions& o) {
  return published({.groups = 2, .pad = 2, .normalize = true}, o);
}

std::shared_ptr<Module> alexnet_ungrouped(const AlexNetOptions& o) {
  return published({.groups = 1, .pad = 0, .normalize = false}, o);
}

std::shared_ptr<Module> alexnet32(int classes) {
  const Layers features = single_column({.in = 3, .out = 64, .kernel = 3, .stride = 2, .pad = 1},
                                        {.in = 64, .out = 192, .kernel = 3, .pad = 1}, {.kernel = 2});
  return sequential({{"features", sequential(features)},  // to 2 x 2 pixels
                     {"flatten", make<Flatten>()},
                     {"classifier", sequential(classifier(256 * 2 * 2, 4096, classes))}});
}

std::shared_ptr<Module> lenet(int classes) {
  return sequential({
      {"conv1", make<Conv2d>({.in = 1, .out = 6, .kernel = 5, .pad = 2})},
      {"relu1", make<ReLU>()},
      {"pool1", make<MaxPool2d>({.kernel = 2})},
      {"conv2", make<Conv2d>({.in = 6, .out = 16, .kernel = 5})},
      {"relu2", make<ReLU>()},
      {"pool2", make<MaxPool2d>({.kernel = 2})},
      {"flatten", make<Flatten>()},
      {"fc1", make<Linear>({.in = 400, .out = 120})},
      {"relu3", make<ReLU>()},
      {"fc2", make<Linear>({.in = 120, .out = 84})},
      {"relu4", make<ReLU>()},
      {"fc3", make<Linear>({.in = 84, .out = classes, .output = true})},
  });
}

static std::shared_ptr<Module> fully_connected(const std::vector<int>& widths) {
  Layers layers{{"flatten", make<Flatten>()}};
  const std::size_t count = widths.size() - 1;
  for (std::size_t i = 1; i <= count; ++i) {
    const bool last = i == count;
    const std::string n = std::to_string(i);
    layers.emplace_back("fc" + n, make<Linear>({.in = widths[i - 1], .out = widths[i], .output = last}));
    if (!last) layers.emplace_back("relu" + n, make<ReLU>());
  }
  return sequential(layers);
}

std::shared_ptr<Module> hdc(int classes) { return fully_connected({784, 500, 500, 500, 500, classes}); }

std::shared_ptr<Module> hdc_2_5mb(int classes) { return fully_connected({784, 500, 500, classes}); }

/// The convolutions, each with batch norm if asked and a ReLU, and the poolings. published: initial values as
/// torchvision's, else PyTorch's default.
static std::shared_ptr<Sequential> features_of_vgg16(bool batch_norm, bool published) {
  constexpr int kPool = 0;
  Layers features;
  int in = 3;
  for (int out : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512, kPool}) {
    if (out == kPool) {
      features.push_back(make<MaxPool2d>({.kernel = 2}));
      continue;
    }
    features.push_back(make<Conv2d>({.in = in,
                                     .out = out,
                                     .kernel = 3,
                                     .pad = 1,
                                     .init = published ? init::he_normal(std::int64_t{out} * 9) : nullptr,
                                     .init_bias = published ? init::constant(0) : nullptr}));
    if (batch_norm) features.push_back(make<BatchNorm2d>({.channels = out}));
    features.push_back(make<ReLU>());
    in = out;
  }
  return sequential(features);
}

std::shared_ptr<Module> vgg16(const Vgg16Options& o) {
  const Initializer zero = init::constant(0), normal = init::normal(0.01f);
  const auto linear = [&](int in, int out, bool output = false) {
    return make<Linear>({.in = in, .out = out, .output = output, .init = normal, .init_bias = zero});
  };
  const auto classifier = sequential({
      linear(512 * 7 * 7, o.hidden),
      make<ReLU>(),
      make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.hidden),
      make<ReLU>(),
      make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.classes, true),
  });
  return sequential({{"features", features_of_vgg16(o.batch_norm, true)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 7, .out_w = 7})},  // it serves other sizes of images
                     {"flatten", make<Flatten>()},
                     {"classifier", classifier}});
}

std::shared_ptr<Module> vgg16_32(int classes) {
  const auto classifier = sequential({
      make<Linear>({.in = 512, .out = 512}),
      make<ReLU>(),
      make<Linear>({.in = 512, .out = 512}),
      make<ReLU>(),
      make<Linear>({.in = 512, .out = classes, .output = true}),
  });
  return sequential(
      {{"features", features_of_vgg16(true, false)}, {"flatten", make<Flatten>()}, {"classifier", classifier}});
}

}  // namespace laconic::models
