#include "layers/layers.h"
#include "layers/models/models.h"

namespace laconic::models {
namespace {

/// The convolutions, each with batch norm if asked and a ReLU, and the poolings. published: initial values as
/// torchvision's, else PyTorch's default.
std::shared_ptr<Sequential> features_of_vgg16(bool batch_norm, bool published) {
  constexpr int kPool = 0;
  Layers features;
  int in = 3;
  for (int out : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512, kPool}) {
    if (out == kPool) {
      features.push_back(make<MaxPool2d>({.kernel = 2}));
      continue;
    }
    features.push_back(make<Conv2d>({.in = in,
                                     .out = out,
                                     .kernel = 3,
                                     .pad = 1,
                                     .init = published ? init::he_normal(std::int64_t{out} * 9) : nullptr,
                                     .init_bias = published ? init::constant(0) : nullptr}));
    if (batch_norm) features.push_back(make<BatchNorm2d>({.channels = out}));
    features.push_back(make<ReLU>());
    in = out;
  }
  return sequential(features);
}

}  // namespace

std::shared_ptr<Module> vgg16(const Vgg16Options& o) {
  const Initializer zero = init::constant(0), normal = init::normal(0.01f);
  const auto linear = [&](int in, int out, bool output = false) {
    return make<Linear>({.in = in, .out = out, .output = output, .init = normal, .init_bias = zero});
  };
  const auto classifier = sequential({
      linear(512 * 7 * 7, o.hidden), make<ReLU>(), make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.hidden), make<ReLU>(), make<Dropout>({.p = 0.5f}),
      linear(o.hidden, o.classes, true),
  });
  return sequential({{"features", features_of_vgg16(o.batch_norm, true)},
                     {"avgpool", make<AdaptiveAvgPool2d>({.out_h = 7, .out_w = 7})},  // for other sizes of images
                     {"flatten", make<Flatten>()},
                     {"classifier", classifier}});
}

std::shared_ptr<Module> vgg16_32(int classes) {
  const auto classifier = sequential({
      make<Linear>({.in = 512, .out = 512}),
      make<ReLU>(),
      make<Linear>({.in = 512, .out = 512}),
      make<ReLU>(),
      make<Linear>({.in = 512, .out = classes, .output = true}),
  });
  return sequential(
      {{"features", features_of_vgg16(true, false)}, {"flatten", make<Flatten>()}, {"classifier", classifier}});
}

}  // namespace laconic::models
