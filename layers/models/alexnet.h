#pragma once
#include "layers/module.h"

namespace laconic::models {

struct AlexNetOptions {
  int classes = 1000;
  int hidden = 4096;  ///< width of the fully connected layers
};

/// AlexNet as torchvision has it ("one weird trick"): 61,100,840 parameters.
///   x : [N, 3, 224, 224], or any size from 63  ->  [N, classes]      names, initial values   torchvision's
///   source   Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks"
std::shared_ptr<Module> alexnet(const AlexNetOptions& options = {});

/// AlexNet as it was published: convolutions 2, 4 and 5 in two groups, local response normalisation: 60,965,224
/// parameters.
///   x : [N, 3, 224, 224], or any size from 63  ->  [N, classes]      names   features.N, classifier.N
///   weights ~ Normal(0, 0.01^2); biases 1 in convolutions 2, 4, 5 and the hidden linear layers, else 0
///   source   Krizhevsky et al. 2012. settled: its layer sizes need padding by 2 in front of the first convolution
std::shared_ptr<Module> alexnet_original(const AlexNetOptions& options = {});

/// The same without groups and without normalisation, and no padding for images of 227: 62,378,344 parameters.
///   x : [N, 3, 227, 227], or any size from 67  ->  [N, classes]
///   source   Kim et al. (docs/papers/hybrid-allreduce.md), Table 1, which prints the parameters of each layer
std::shared_ptr<Module> alexnet_ungrouped(const AlexNetOptions& options = {});

}  // namespace laconic::models
