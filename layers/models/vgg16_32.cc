#include "layers/models/vgg16_32.h"

#include "layers/layers.h"
#include "layers/models/vgg16.h"

namespace laconic::models {

std::shared_ptr<Module> vgg16_32(int classes) {
  const auto classifier = sequential({
      make<Linear>({.in = 512, .out = 512}), make<ReLU>(),
      make<Linear>({.in = 512, .out = 512}), make<ReLU>(),
      make<Linear>({.in = 512, .out = classes, .output = true}),
  });
  return sequential({{"features", sequential(vgg16_features(true, nullptr, nullptr))},
                     {"flatten", make<Flatten>()},
                     {"classifier", classifier}});
}

}  // namespace laconic::models
