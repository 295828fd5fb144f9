#pragma once
#include <array>

#include "layers/module.h"

/// Networks that classify images. `laconic models --layers NAME` lists the layers of one.
namespace laconic::models {

/// LeNet-5 as MNIST tutorials train it: 61,706 parameters for 10 classes.   x : [N, 1, 28, 28]  ->  [N, classes]
///   source   LeCun et al. 1998, with ReLU and max-pooling
std::shared_ptr<Module> lenet(int classes);

/// Handwritten digit classification: five fully connected layers, 784-500-500-500-500-classes; 1,149,010 parameters for
/// 10 classes.   x : [N, 1, 28, 28] or [N, 784]  ->  [N, classes]   source: Li et al. 2018 (INCEPTIONN), Table 1
std::shared_ptr<Module> hdc(int classes);
/// 784-500-500-classes, 648,010 parameters: what fits the 2.5 MB that the paper prints for HDC.
std::shared_ptr<Module> hdc_2_5mb(int classes);

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
/// AlexNet without groups and normalisation, and without padding for images of 227: 62,378,344 parameters.
///   x : [N, 3, 227, 227], or any size from 67  ->  [N, classes]
///   source   Kim et al. (docs/papers/hybrid-allreduce.md), Table 1, which prints the parameters of each layer
std::shared_ptr<Module> alexnet_ungrouped(const AlexNetOptions& options = {});
/// AlexNet cut down to 32 x 32 images; 23,272,266 parameters for 10 classes.   x : [N, 3, 32, 32]  ->  [N, classes]
///   source   Krizhevsky et al. 2012, in torchvision's single-column form, with 3 x 3 kernels
std::shared_ptr<Module> alexnet32(int classes);

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
/// VGG-16 with batch norm and fully connected layers of 512 for 32 x 32 images; 15,253,578 parameters for 10 classes.
///   x : [N, 3, 32, 32]  ->  [N, classes]      initial values   PyTorch's default
std::shared_ptr<Module> vgg16_32(int classes);

struct ResNetOptions {
  std::array<int, 4> blocks{2, 2, 2, 2};  ///< blocks of each stage
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
///   source   He et al. 2016, "Deep residual learning for image recognition", section 4.1
std::shared_ptr<Module> resnet(const ResNetOptions& options);
/// Residual network for 32 x 32 images, 6n + 2 layers: 3x3 convolution to 16 channels, three stages of n basic blocks
/// with 16, 32, 64 channels (the first of stages 2 and 3 halves the image), global average, linear.
///   x : [N, 3, 32, 32]  ->  [N, classes]   n = 3, 5, 7, 9: 269,722, 464,154, 658,586, 853,018 parameters
///   shortcuts without parameters (option A); convolutions without bias ~ He et al. 2015, eq. 10
///   source   He et al. 2016, section 4.2
std::shared_ptr<Module> resnet_cifar(int n, int classes = 10);

struct GoogLeNetOptions {
  bool batch_norm = false, auxiliary_heads = false;
  int classes = 1000;
};
/// GoogLeNet (Inception v1), in one of two forms:
///   published     5x5 convolutions in the third branches, biases, local response normalisation: 6,998,552 parameters
///   batch_norm    as torchvision has it: 3x3 there, batch norm (epsilon 0.001) after every convolution: 6,624,904
/// With auxiliary heads, behind inception4a and inception4d: 13,378,280 and 13,004,888; their losses weigh 0.3.
///   x : [N, 3, 224, 224], or smaller, down to 47 x 47 (with heads 80 x 80), torchvision's to 33 x 33 -> [N, classes]
///   names    torchvision's: conv1.conv.weight, inception3a.branch2.0.conv.weight, aux1.fc1.weight, fc.weight, …
///   initial values   batch_norm: torchvision's, weights ~ Normal(0, 0.01^2). published: the paper has none; as in
///            Caffe's model, weights init::xavier, biases 0.2 (0 in the layers that predict)
///   source   Szegedy et al. 2015, "Going deeper with convolutions", Table 1; Caffe's bvlc_googlenet for what it leaves
///            open (windows rounded up, normalisation before the second convolution and behind the third, k = 1)
std::shared_ptr<Module> googlenet(const GoogLeNetOptions& options);

}  // namespace laconic::models
