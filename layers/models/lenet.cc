#include "layers/layers.h"
#include "layers/models/models.h"

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

namespace {

std::shared_ptr<Module> fully_connected(const std::vector<int>& widths) {
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

}  // namespace

std::shared_ptr<Module> hdc(int classes) { return fully_connected({784, 500, 500, 500, 500, classes}); }

std::shared_ptr<Module> hdc_2_5mb(int classes) { return fully_connected({784, 500, 500, classes}); }

}  // namespace laconic::models
