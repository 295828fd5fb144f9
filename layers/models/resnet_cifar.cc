#include "layers/models/resnet_cifar.h"

#include "layers/layers.h"

namespace laconic::models {
namespace {

std::shared_ptr<Conv2d> conv3x3(int in, int out, int stride) {
  return make<Conv2d>({.in = in, .out = out, .kernel = 3, .stride = stride, .pad = 1, .bias = false, .he = true});
}

/// y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x))
class BasicBlock final : public Module {
 public:
  struct Options {
    int in, out, stride;
  };
  explicit BasicBlock(Options o)
      : o_(o),
        conv1_(child("conv1", conv3x3(o.in, o.out, o.stride))),
        bn1_(child<BatchNorm2d>("bn1", {.channels = o.out})),
        conv2_(child("conv2", conv3x3(o.out, o.out, 1))),
        bn2_(child<BatchNorm2d>("bn2", {.channels = o.out})) {}

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor shortcut = o_.stride == 1 ? x : ops::pad_shortcut(x, o_.out);
    const Tensor h = bn1_->forward_relu((*conv1_)(x));
    return bn2_->forward_add_relu((*conv2_)(h), shortcut);
  }

 private:
  Options o_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> bn2_;
};

std::shared_ptr<Sequential> stage(int n, int in, int out) {
  std::vector<Sequential::Layer> blocks;
  for (int b = 0; b < n; ++b)
    blocks.push_back(make<BasicBlock>({.in = b ? out : in, .out = out, .stride = b || in == out ? 1 : 2}));
  return sequential(blocks);
}

}  // namespace

std::shared_ptr<Module> resnet_cifar(int n, int classes) {
  return sequential({
      {"conv1", conv3x3(3, 16, 1)},
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
