#include "layers/models/alexnet32.h"

#include "layers/layers.h"

namespace laconic::models {

std::shared_ptr<Module> alexnet32(int classes) {
  const auto features = sequential({
      make<Conv2d>({.in = 3, .out = 64, .kernel = 3, .stride = 2, .pad = 1}), make<ReLU>(),
      make<MaxPool2d>({.kernel = 2}),  // 8 x 8
      make<Conv2d>({.in = 64, .out = 192, .kernel = 3, .pad = 1}), make<ReLU>(),
      make<MaxPool2d>({.kernel = 2}),  // 4 x 4
      make<Conv2d>({.in = 192, .out = 384, .kernel = 3, .pad = 1}), make<ReLU>(),
      make<Conv2d>({.in = 384, .out = 256, .kernel = 3, .pad = 1}), make<ReLU>(),
      make<Conv2d>({.in = 256, .out = 256, .kernel = 3, .pad = 1}), make<ReLU>(),
      make<MaxPool2d>({.kernel = 2}),  // 2 x 2
  });
  const auto classifier = sequential({
      make<Dropout>({.p = 0.5f}), make<Linear>({.in = 1024, .out = 4096}), make<ReLU>(),
      make<Dropout>({.p = 0.5f}), make<Linear>({.in = 4096, .out = 4096}), make<ReLU>(),
      make<Linear>({.in = 4096, .out = classes, .output = true}),
  });
  return sequential({{"features", features}, {"flatten", make<Flatten>()}, {"classifier", classifier}});
}

}  // namespace laconic::models
