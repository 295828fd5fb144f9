#include "layers/models/vgg16.h"

#include "layers/init.h"
#include "layers/layers.h"

namespace laconic::models {

std::vector<Sequential::Layer> vgg16_features(bool batch_norm, const std::function<Initializer(int out)>& init,
                                              const Initializer& init_bias) {
  constexpr int kPool = 0;
  std::vector<Sequential::Layer> features;
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
                                     .init = init ? init(out) : nullptr,
                                     .init_bias = init_bias}));
    if (batch_norm) features.push_back(make<BatchNorm2d>({.channels = out}));
    features.push_back(make<ReLU>());
    in = out;
  }
  return features;
}

std::shared_ptr<Module> vgg16(const Vgg16Options& o) {
  const Initializer zero = init::constant(0), normal = init::normal(0.01f);
  const auto linear = [&](int in, int out, bool output = false) {
    return make<Linear>({.in = in, .out = out, .output = output, .init = normal, .init_bias = zero});
  };
  const auto features =
      vgg16_features(o.batch_norm, [](int out) { return init::he_normal(std::int64_t{out} * 9); }, zero);
  const auto classifier = sequential({
      linear(512 * 7 * 7, o.hidden), make<ReLU>(), make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.hidden), make<ReLU>(), make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.classes, true),
  });
  return sequential({{"features", sequential(features)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 7, .out_w = 7})},  // for other sizes of images
                     {"flatten", make<Flatten>()},
                     {"classifier", classifier}});
}

}  // namespace laconic::models
