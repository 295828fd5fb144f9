#include "layers/models/vgg16_32.h"

#include "layers/layers.h"

namespace laconic::models {

std::shared_ptr<Module> vgg16_32(int classes) {
  constexpr int kPool = 0;
  std::vector<Sequential::Layer> features;
  int in = 3;
  for (int out : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512, kPool}) {
    if (out == kPool) {
      features.push_back(make<MaxPool2d>({.kernel = 2}));
      continue;
    }
    features.push_back(make<Conv2d>({.in = in, .out = out, .kernel = 3, .pad = 1}));
    features.push_back(make<BatchNorm2d>({.channels = out}));
    features.push_back(make<ReLU>());
    in = out;
  }
  const auto classifier = sequential({
      make<Linear>({.in = 512, .out = 512}), make<ReLU>(),
      make<Linear>({.in = 512, .out = 512}), make<ReLU>(),
      make<Linear>({.in = 512, .out = classes, .output = true}),
  });
  return sequential({{"features", sequential(features)}, {"flatten", make<Flatten>()}, {"classifier", classifier}});
}

}  // namespace laconic::models
