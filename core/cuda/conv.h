#pragma once
#include <cstdint>
#include <limits>

#include "core/ops/conv2d.h"

/// 2-d convolution on the calling thread's device and stream: 1x1 ones of stride 1 are matrix products (core/cuda/
/// matmul.h), all others cuDNN's. Activations are channels_last: as tensor cores read them, and batch norm and pooling
/// walk over channels. Weights are kept in the order that goes with it beside the parameter until its value changes.
/// Algorithms are what cuDNN's heuristic ranks first for a shape among those that are deterministic and need at most
/// 1 GiB of workspace; never a timing, so that all ranks with one model of GPU compute the same bits. Where there is none
/// for channels_last, one for plain order in float32 takes its place.
/// Operands are all f32, multiplied as matmul_precision() says, or all bf16, but for the parameter, which is rounded
/// here. cuDNN's bf16 convolutions have bf16 results: those are rounded before they become float32.
namespace laconic::cuda {

/// cuDNN describes no tensor of 2^31 elements or more: a batch whose input or output has more than this goes in two.
/// Tests make it small.
inline std::int64_t conv_most_elements = std::numeric_limits<std::int32_t>::max();

/// y = conv(x, w) + b, then ReLU if asked.   x : f32 or bf16   y : f32   w : plain, f32   b may be undefined
void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
                    const ops::Conv2dOptions& options);
/// dx = the gradient of the input.   dx : f32   dy : f32 or bf16
void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& options);
/// dw (+)= the gradient of the weights, in plain order.   x, dy : both f32 or both bf16
void conv2d_backward_weights(const Tensor& dw, bool add, const Tensor& x, const Tensor& dy,
                             const ops::Conv2dOptions& options);

}  // namespace laconic::cuda
