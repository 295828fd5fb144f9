#pragma once
#include <vector>

#include "layers/sequential.h"

namespace laconic::models {

struct Vgg16Options {
  bool batch_norm = false;  ///< after every convolution
  int classes = 1000;
  int hidden = 4096;  ///< width of the fully connected layers
};
/// VGG-16: 138,357,544 parameters, with batch norm 138,365,992.
///   x : [N, 3, 224, 224], or any size from 32  ->  [N, classes]
///   names, initial values   torchvision's: convolutions ~ He et al. 2015, eq. 14, linear layers ~ Normal(0, 0.01^2)
///   source   Simonyan & Zisserman 2015, configuration D
std::shared_ptr<Module> vgg16(const Vgg16Options& options = {});

/// Its convolutions, each with batch norm if asked and a ReLU, and its poolings; weights and biases as given, null:
/// PyTorch's default.
std::vector<Sequential::Layer> vgg16_features(bool batch_norm, const std::function<Initializer(int out)>& init,
                                              const Initializer& init_bias);

}  // namespace laconic::models
