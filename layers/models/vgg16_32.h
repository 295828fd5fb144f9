#pragma once
#include "layers/module.h"

namespace laconic::models {

/// VGG-16 with batch norm for 32 x 32 images; 15,253,578 parameters for 10 classes.
///   x : [N, 3, 32, 32]  ->  [N, classes]
///   source   Simonyan & Zisserman 2015, configuration D, with batch norm and 512-wide fully connected layers
std::shared_ptr<Module> vgg16_32(int classes = 10);

}  // namespace laconic::models
