#pragma once
#include <cstdint>

#include "layers/module.h"

/// How new parameters are filled.
namespace laconic::init {

/// Uniform(-k, k), k = 1 / sqrt(fan_in): PyTorch's default for weights and biases of linear and convolution layers.
/// fan_in = inputs that one output sums: in, or in / groups * kernel^2.
Initializer uniform_fan_in(std::int64_t fan_in);

/// Uniform(-k, k), k = sqrt(3 / fan_in): outputs vary as much as inputs.
/// source   Glorot & Bengio 2010, as Caffe's "xavier" has it
Initializer xavier(std::int64_t fan_in);

/// Uniform(-k, k).
Initializer uniform(float k);

/// Normal(0, deviation^2).
Initializer normal(float deviation);

/// Normal(0, 2 / fan).   source: He et al. 2015, "Delving deep into rectifiers", eq. 10 (fan_in) and 14 (fan_out)
Initializer he_normal(std::int64_t fan);

Initializer constant(float value);

}  // namespace laconic::init
