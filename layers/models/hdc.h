#pragma once
#include "layers/module.h"

namespace laconic::models {

/// Handwritten digit classification: five fully connected layers, 784-500-500-500-500-classes; 1,149,010 parameters for
/// 10 classes.   x : [N, 1, 28, 28] or [N, 784]  ->  [N, classes]   source: Li et al. 2018 (INCEPTIONN), Table 1
std::shared_ptr<Module> hdc(int classes = 10);

/// 784-500-500-classes, 648,010 parameters: what fits the 2.5 MB that the paper prints for HDC.
std::shared_ptr<Module> hdc_2_5mb(int classes = 10);

}  // namespace laconic::models
