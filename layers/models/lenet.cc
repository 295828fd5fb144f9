#include "layers/models/lenet.h"

#include "layers/layers.h"

namespace laconic::models {

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

}  // namespace laconic::models
