#pragma once
#include "layers/module.h"

namespace laconic::models {

/// AlexNet cut down to 32 x 32 images; 23,272,266 parameters for 10 classes.   x : [N, 3, 32, 32]  ->  [N, classes]
///   source   Krizhevsky et al. 2012, in torchvision's single-column form, with 3 x 3 kernels
std::shared_ptr<Module> alexnet32(int classes = 10);

}  // namespace laconic::models
