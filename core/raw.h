#pragma once
#include <span>

#include "core/tensor.h"

namespace laconic {

struct SgdStep {
  float lr, gradient_scale, weight_decay, momentum, dampening;
  bool nesterov;
  bool first;  ///< whether the buffer holds nothing yet
};
struct AdamStep {
  float gradient_scale, weight_decay, beta1, beta2;
  float rest1, rest2;  ///< 1 - beta1 and 1 - beta2, to all digits of a float
  float eps;
  float step_size;        ///< lr / (1 - beta1^t)
  float root_correction;  ///< sqrt(1 - beta2^t)
  float keep;             ///< 1 - lr * weight_decay where the decay is decoupled (weight_decay is 0 there), else 1
};

}  // namespace laconic

/// Kernels that compute and record nothing: what the differentiable operations (core/ops) are made of. They run where
/// the memory lies (core/dispatch.h). Float32 unless said otherwise.
namespace laconic::raw {

void fill(const Tensor& y, float value);               ///< y = value
void add_into(const Tensor& y, const Tensor& x);       ///< y += x; any layouts, f32 or bf16 each, same shape
void add_into(Slice<float> y, Slice<const float> x);   ///< y += x; of one length, on one device
void axpy(const Tensor& y, float a, const Tensor& x);  ///< y += a x; same layout
void scale(const Tensor& y, float a);                  ///< y *= a
void increment(const Tensor& counter);                 ///< counter += 1; int64 [1] or scalar
Tensor add(const Tensor& a, const Tensor& b);          ///< the sum in a's layout; both f32, or both bf16
Tensor wide_sum(const Tensor& a, const Tensor& b);     ///< a + b in float32, in a's layout; a bf16, b either

/// x in another layout: x itself if it has that layout, a copy otherwise (free where both orders are the same memory:
/// one channel, or 1x1 images). Throws ShapeError for blocked16 if the channels are not a multiple of 16.
Tensor to_layout(const Tensor& x, Layout layout);

/// x as f32 or bf16: x itself if it is that, otherwise a copy, rounded to the nearest where bits are lost. Layouts
/// stay.
Tensor cast(const Tensor& x, DType dtype);
/// cast() for a parameter: the copy is kept beside it (Tensor::derived()) while its value does not change.
Tensor rounded_parameter(const Tensor& w, DType dtype);

/// True if every element is finite; f32 or bf16. One pass. Waits for the device, as the sums do.
bool all_finite(const Tensor& x);

/// sum of x[i]^2 in double, added in chunks of fixed size: the same for any number of threads.
double sum_of_squares(const Tensor& x);
/// Over tensors of one device, waiting once.
double sum_of_squares(std::span<const Tensor> x);

// The updates of optimisers: one pass each, every array read and written once. Float32, plain layout. They tell w that
// its value has changed (Tensor::bump_version). They throw ShapeError if the operands differ in elements.

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
