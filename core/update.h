#pragma once
#include "core/kernels/elementwise.h"
#include "core/tensor.h"

/// What optimisers are made of: fused element-wise updates that run where the memory lies. Float32, plain layout. They
/// tell w that its value has changed (Tensor::bump_version). Throw ShapeError if the operands differ in elements.
namespace laconic::raw {

using laconic::AdamStep;
using laconic::SgdStep;

/// d = scale g + decay w;   buffer = momentum buffer + (1 - dampening) d   (the first time: buffer = d);
/// w -= lr buffer,   Nesterov: w -= lr (d + momentum buffer),   without a buffer (undefined): w -= lr d
void sgd(const Tensor& w, const Tensor& g, const Tensor& buffer, const SgdStep& step);

/// d = scale g + decay w;   m = beta1 m + (1 - beta1) d;   v = beta2 v + (1 - beta2) d^2;
/// w = keep w - step_size m / (sqrt(v) / root_correction + eps)
void adam(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const AdamStep& step);

/// Every element of x to [-limit, limit]; NaN stays NaN.
void clamp(const Tensor& x, float limit);

}  // namespace laconic::raw
