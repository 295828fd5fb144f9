#pragma once
#include "core/ops/conv2d.h"

/// 2-d convolution through oneDNN. Primitives are made once per shape and thread; weights are kept in oneDNN's own
/// blocked order beside the parameter and refreshed when its version changes (plain weights handed to a primitive fall
/// to kernels that are 2 to 1000 times slower).
namespace laconic::cpu {

/// The layout that a convolution of x gives, and the one that it wants x in.
struct ConvLayouts {
  Layout input, output;
};
ConvLayouts conv_layouts(const Tensor& x, std::int64_t out_channels, int groups);

/// y = conv(x, w) + b, then ReLU if asked. x and y in the layouts above; b may be undefined.
void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
                    const ops::Conv2dOptions& options);
/// dx = the gradient of the input.  dy in the output's layout, dx in the input's.
void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& options);
/// dw (+)= the gradient of the weights, in plain order; db (+)= that of the bias, if defined.
void conv2d_backward_weights(const Tensor& dw, bool add_dw, const Tensor& db, bool add_db, const Tensor& x,
                             const Tensor& dy, const ops::Conv2dOptions& options);

}  // namespace laconic::cpu
