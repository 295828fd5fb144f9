#include "layers/models/resnet.h"

#include "layers/init.h"
#include "layers/layers.h"
#include "layers/models/residual_block.h"

namespace laconic::models {
namespace {

Conv2d::Options conv(int in, int out, int kernel, int stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .bias = false,
          .init = init::he_normal(std::int64_t{out} * kernel * kernel)};
}

std::shared_ptr<Module> block(const ResNetOptions& o, int in, int width, int out, int stride) {
  std::shared_ptr<Module> shortcut;
  if (stride != 1 || in != out)
    shortcut = sequential({make<Conv2d>(conv(in, out, 1, stride)), make<BatchNorm2d>({.channels = out})});
  if (!o.bottleneck)
    return std::make_shared<ResidualBlock>(std::vector{conv(in, width, 3, stride), conv(width, out, 3)}, shortcut);
  return std::make_shared<ResidualBlock>(
      std::vector{conv(in, width, 1, o.v1 ? stride : 1), conv(width, width, 3, o.v1 ? 1 : stride), conv(width, out, 1)},
      shortcut);
}

}  // namespace

std::shared_ptr<Module> resnet(const ResNetOptions& o) {
  std::vector<std::pair<std::string, Sequential::Layer>> layers = {
      {"conv1", make<Conv2d>(conv(3, 64, 7, 2))},
      {"bn1", make<BatchNorm2d>({.channels = 64})},
      {"relu", make<ReLU>()},
      {"maxpool", make<MaxPool2d>({.kernel = 3, .stride = 2, .pad = 1})},
  };
  int in = 64, width = 64;
  for (int stage = 1; const int blocks : o.blocks) {
    const int out = o.bottleneck ? 4 * width : width;
    std::vector<Sequential::Layer> all;
    for (int b = 0; b < blocks; ++b, in = out) all.push_back(block(o, in, width, out, b || stage == 1 ? 1 : 2));
    layers.emplace_back("layer" + std::to_string(stage++), sequential(all));
    width *= 2;
  }
  layers.emplace_back("avgpool", make<AdaptiveAvgPool2d>());
  layers.emplace_back("flatten", make<Flatten>());
  layers.emplace_back("fc", make<Linear>({.in = in, .out = o.classes, .output = true}));
  return sequential(layers);
}

}  // namespace laconic::models
