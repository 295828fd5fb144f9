#include "layers/models/hdc.h"

#include "layers/layers.h"

namespace laconic::models {
namespace {

std::shared_ptr<Module> fully_connected(const std::vector<int>& widths) {
  std::vector<std::pair<std::string, Sequential::Layer>> layers{{"flatten", make<Flatten>()}};
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
