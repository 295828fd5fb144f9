#include "layers/models/alexnet.h"

#include "layers/init.h"
#include "layers/layers.h"

namespace laconic::models {
namespace {

std::shared_ptr<Module> overlapping_pool() { return make<MaxPool2d>({.kernel = 3, .stride = 2}); }

std::shared_ptr<Module> model(const std::vector<Sequential::Layer>& features,
                              const std::vector<Sequential::Layer>& classifier) {
  return sequential({{"features", sequential(features)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 6, .out_w = 6})},  // for other sizes of images
                     {"flatten", make<Flatten>()},
                     {"classifier", sequential(classifier)}});
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
  std::vector<Sequential::Layer> features;
  const auto add = [&](std::initializer_list<Sequential::Layer> layers) {
    features.insert(features.end(), layers.begin(), layers.end());
  };
  const auto normalize = [&] {
    // The paper's alpha of 1e-4 is not divided by the size.
    if (p.normalize) add({make<LocalResponseNorm>({.size = 5, .alpha = 5e-4f, .beta = 0.75f, .k = 2})});
  };
  add({conv({.in = 3, .out = 96, .kernel = 11, .stride = 4, .pad = p.pad}, 0), make<ReLU>()});
  normalize();
  add({overlapping_pool(), conv({.in = 96, .out = 256, .kernel = 5, .pad = 2, .groups = p.groups}, 1), make<ReLU>()});
  normalize();
  add({overlapping_pool(), conv({.in = 256, .out = 384, .kernel = 3, .pad = 1}, 0), make<ReLU>(),
       conv({.in = 384, .out = 384, .kernel = 3, .pad = 1, .groups = p.groups}, 1), make<ReLU>(),
       conv({.in = 384, .out = 256, .kernel = 3, .pad = 1, .groups = p.groups}, 1), make<ReLU>(), overlapping_pool()});
  return model(features, {linear({.in = 256 * 6 * 6, .out = o.hidden}, 1), make<ReLU>(), make<Dropout>({.p = 0.5f}),
                          linear({.in = o.hidden, .out = o.hidden}, 1), make<ReLU>(), make<Dropout>({.p = 0.5f}),
                          linear({.in = o.hidden, .out = o.classes, .output = true}, 0)});
}

}  // namespace

std::shared_ptr<Module> alexnet(const AlexNetOptions& o) {
  return model({make<Conv2d>({.in = 3, .out = 64, .kernel = 11, .stride = 4, .pad = 2}), make<ReLU>(),
                overlapping_pool(), make<Conv2d>({.in = 64, .out = 192, .kernel = 5, .pad = 2}), make<ReLU>(),
                overlapping_pool(), make<Conv2d>({.in = 192, .out = 384, .kernel = 3, .pad = 1}), make<ReLU>(),
                make<Conv2d>({.in = 384, .out = 256, .kernel = 3, .pad = 1}), make<ReLU>(),
                make<Conv2d>({.in = 256, .out = 256, .kernel = 3, .pad = 1}), make<ReLU>(), overlapping_pool()},
               {make<Dropout>({.p = 0.5f}), make<Linear>({.in = 256 * 6 * 6, .out = o.hidden}), make<ReLU>(),
                make<Dropout>({.p = 0.5f}), make<Linear>({.in = o.hidden, .out = o.hidden}), make<ReLU>(),
                make<Linear>({.in = o.hidden, .out = o.classes, .output = true})});
}

std::shared_ptr<Module> alexnet_original(const AlexNetOptions& o) {
  return published({.groups = 2, .pad = 2, .normalize = true}, o);
}

std::shared_ptr<Module> alexnet_ungrouped(const AlexNetOptions& o) {
  return published({.groups = 1, .pad = 0, .normalize = false}, o);
}

}  // namespace laconic::models
