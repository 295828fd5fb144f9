#include "layers/layers.h"
#include "layers/models/models.h"

namespace laconic::models {
namespace {

constexpr MaxPool2d::Options kOverlapping{.kernel = 3, .stride = 2};

std::shared_ptr<Module> model(const Layers& features, const Layers& classifier) {
  return sequential({{"features", sequential(features)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 6, .out_w = 6})},  // for other sizes of images
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

/// Its linear layers, on so many features.
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

}  // namespace laconic::models
