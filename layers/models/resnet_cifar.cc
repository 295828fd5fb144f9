#include "layers/models/resnet_cifar.h"

#include "layers/init.h"
#include "layers/layers.h"
#include "layers/models/residual_block.h"

namespace laconic::models {
namespace {

Conv2d::Options conv3x3(int in, int out, int stride) {
  return {.in = in,
          .out = out,
          .kernel = 3,
          .stride = stride,
          .pad = 1,
          .bias = false,
          .init = init::he_normal(std::int64_t{in} * 9)};
}

/// A shortcut without parameters (option A): every second pixel, new channels zero.
class PadShortcut final : public Module {
 public:
  explicit PadShortcut(int channels) : channels_(channels) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::pad_shortcut(x, channels_); }

 private:
  int channels_;
};

std::shared_ptr<Sequential> stage(int n, int in, int out) {
  std::vector<Sequential::Layer> blocks;
  for (int b = 0; b < n; ++b) {
    const bool narrower = b == 0 && in != out;
    blocks.push_back(std::make_shared<ResidualBlock>(
        std::vector{conv3x3(b ? out : in, out, narrower ? 2 : 1), conv3x3(out, out, 1)},
        narrower ? std::make_shared<PadShortcut>(out) : nullptr));
  }
  return sequential(blocks);
}

}  // namespace

std::shared_ptr<Module> resnet_cifar(int n, int classes) {
  return sequential({
      {"conv1", make<Conv2d>(conv3x3(3, 16, 1))},
      {"bn1", make<BatchNorm2d>({.channels = 16})},
      {"relu", make<ReLU>()},
      {"layer1", stage(n, 16, 16)},  // 32 x 32
      {"layer2", stage(n, 16, 32)},  // 16 x 16
      {"layer3", stage(n, 32, 64)},  //  8 x 8
      {"pool", make<AdaptiveAvgPool2d>()},
      {"flatten", make<Flatten>()},
      {"fc", make<Linear>({.in = 64, .out = classes, .output = true})},
  });
}

}  // namespace laconic::models
