#pragma once
#include "layers/module.h"

namespace laconic::models {

/// LeNet-5 as MNIST tutorials train it: 61,706 parameters for 10 classes.   x : [N, 1, 28, 28]  ->  [N, classes]
///   source   LeCun et al. 1998, with ReLU and max-pooling
std::shared_ptr<Module> lenet(int classes = 10);

}  // namespace laconic::models
