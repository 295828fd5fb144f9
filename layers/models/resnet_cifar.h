#pragma once
#include "layers/module.h"

namespace laconic::models {

/// Residual network for 32 x 32 images, 6n + 2 layers: 3x3 convolution to 16 channels, three stages of n basic blocks
/// with 16, 32, 64 channels (the first of stages 2 and 3 halves the image), global average, linear.
///   x : [N, 3, 32, 32]  ->  [N, classes]   n = 3, 5, 7, 9: 269,722, 464,154, 658,586, 853,018 parameters
///   shortcuts without parameters (option A); convolutions without bias ~ He et al. 2015, eq. 10
///   source   He et al. 2016, section 4.2
std::shared_ptr<Module> resnet_cifar(int n, int classes = 10);

}  // namespace laconic::models
