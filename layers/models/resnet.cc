#include "layers/layers.h"
#include "layers/models/models.h"

namespace laconic::models {
namespace {

/// y = relu(F(x) + shortcut(x)), F = conv1, bn1, relu, conv2, bn2, relu, … without the last relu.
///   names    conv1, bn1, conv2, …; downsample
///   source   He et al. 2016, section 3.2
class ResidualBlock final : public Module {
 public:
  /// shortcut : null for y = relu(F(x) + x)
  ResidualBlock(const std::vector<Conv2d::Options>& convolutions, std::shared_ptr<Module> shortcut)
      : shortcut_(std::move(shortcut)) {
    for (const Conv2d::Options& o : convolutions) {
      const std::string number = std::to_string(convolutions_.size() + 1);
      convolutions_.push_back(child<Conv2d>("conv" + number, o));
      // In the order of use, so that gradients lie in the order in which they become ready.
      if (convolutions_.size() == convolutions.size() && shortcut_) child("downsample", shortcut_);
      norms_.push_back(child<BatchNorm2d>("bn" + number, {.channels = o.out}));
    }
  }

 private:
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (std::size_t i = 0; i + 1 < norms_.size(); ++i) h = norms_[i]->forward_relu((*convolutions_[i])(h));
    h = (*convolutions_.back())(h);
    return norms_.back()->forward_add_relu(h, shortcut_ ? (*shortcut_)(x) : x);
  }
  std::vector<std::shared_ptr<Conv2d>> convolutions_;
  std::shared_ptr<Module> shortcut_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
};

/// A shortcut without parameters (option A): every second pixel, new channels zero.
class PadShortcut final : public Module {
 public:
  explicit PadShortcut(int channels) : channels_(channels) {}

 private:
  Tensor forward(const Tensor& x) override { return ops::pad_shortcut(x, channels_); }
  int channels_;
};

/// fan : channels by which initial values go, of the output (He et al. 2015, eq. 14) or of the input (eq. 10)
Conv2d::Options convolution(int in, int out, int kernel, int stride, int fan) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .bias = false,
          .init = init::he_normal(std::int64_t{fan} * kernel * kernel)};
}
Conv2d::Options conv(int in, int out, int kernel, int stride = 1) { return convolution(in, out, kernel, stride, out); }
Conv2d::Options conv_by_input(int in, int out, int stride) { return convolution(in, out, 3, stride, in); }

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

std::shared_ptr<Sequential> stage_of_cifar(int n, int in, int out) {
  Layers blocks;
  for (int b = 0; b < n; ++b) {
    const bool narrower = b == 0 && in != out;
    blocks.push_back(std::make_shared<ResidualBlock>(
        std::vector{conv_by_input(b ? out : in, out, narrower ? 2 : 1), conv_by_input(out, out, 1)},
        narrower ? std::make_shared<PadShortcut>(out) : nullptr));
  }
  return sequential(blocks);
}

}  // namespace

std::shared_ptr<Module> resnet(const ResNetOptions& o) {
  Layers layers = {
      {"conv1", make<Conv2d>(conv(3, 64, 7, 2))},
      {"bn1", make<BatchNorm2d>({.channels = 64})},
      {"relu", make<ReLU>()},
      {"maxpool", make<MaxPool2d>({.kernel = 3, .stride = 2, .pad = 1})},
  };
  int in = 64, width = 64;
  for (int stage = 1; const int blocks : o.blocks) {
    const int out = o.bottleneck ? 4 * width : width;
    Layers all;
    for (int b = 0; b < blocks; ++b, in = out) all.push_back(block(o, in, width, out, b || stage == 1 ? 1 : 2));
    layers.emplace_back("layer" + std::to_string(stage++), sequential(all));
    width *= 2;
  }
  layers.emplace_back("avgpool", make<AdaptiveAvgPool2d>({}));
  layers.emplace_back("flatten", make<Flatten>());
  layers.emplace_back("fc", make<Linear>({.in = in, .out = o.classes, .output = true}));
  return sequential(layers);
}

std::shared_ptr<Module> resnet_cifar(int n, int classes) {
  return sequential({
      {"conv1", make<Conv2d>(conv_by_input(3, 16, 1))},
      {"bn1", make<BatchNorm2d>({.channels = 16})},
      {"relu", make<ReLU>()},
      {"layer1", stage_of_cifar(n, 16, 16)},  // 32 x 32
      {"layer2", stage_of_cifar(n, 16, 32)},  // 16 x 16
      {"layer3", stage_of_cifar(n, 32, 64)},  //  8 x 8
      {"pool", make<AdaptiveAvgPool2d>({})},
      {"flatten", make<Flatten>()},
      {"fc", make<Linear>({.in = 64, .out = classes, .output = true})},
  });
}

}  // namespace laconic::models
