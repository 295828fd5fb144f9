#pragma once
#include <vector>

#include "layers/batch_norm.h"
#include "layers/conv2d.h"

namespace laconic::models {

/// y = relu(F(x) + shortcut(x)), F = conv1, bn1, relu, conv2, bn2, relu, … without the last relu.
///   names    conv1, bn1, conv2, …; downsample
///   source   He et al. 2016, "Deep residual learning for image recognition", section 3.2
class ResidualBlock final : public Module {
 public:
  /// shortcut : null for y = relu(F(x) + x)
  ResidualBlock(const std::vector<Conv2d::Options>& convolutions, std::shared_ptr<Module> shortcut);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Conv2d>> convolutions_;
  std::shared_ptr<Module> shortcut_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
};

}  // namespace laconic::models
