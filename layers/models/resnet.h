#pragma once
#include <array>

#include "layers/module.h"

namespace laconic::models {

struct ResNetOptions {
  std::array<int, 4> blocks{2, 2, 2, 2};  ///< of each stage
  bool bottleneck = false;                ///< blocks of 1x1, 3x3, 1x1 convolutions, the last four times as wide
  bool v1 = false;  ///< bottlenecks halve the image in their first 1x1, as published; else in the 3x3 ("v1.5")
  int classes = 1000;
};
/// Residual network for large images: 7x7 convolution to 64 channels with stride 2, 3x3 max-pooling with stride 2, four
/// stages (the first block of all but the first halves the image), global average, linear.
///   x : [N, 3, 224, 224], or smaller, down to 32 x 32  ->  [N, classes]
///   resnet18 {2, 2, 2, 2}: 11,689,512 parameters; resnet34 {3, 4, 6, 3}: 21,797,672; bottlenecks: resnet50
///   {3, 4, 6, 3}: 25,557,032; resnet101 {3, 4, 23, 3}: 44,549,160
///   shortcuts 1x1 convolutions where the shape changes (option B); names and initial values as torchvision's:
///   convolutions without bias ~ He et al. 2015, eq. 14
///   source   He et al. 2016, section 4.1
std::shared_ptr<Module> resnet(const ResNetOptions& options);

}  // namespace laconic::models
