#pragma once
#include "core/cpu/layout.h"

/// Batch normalisation with addition and ReLU folded into its two passes, each way. Own kernels, because oneDNN's write
/// past the caches, so that the next convolution reads from memory (10 % of a ResNet-20 step).
/// Sums go by fixed chunks of rows, floats within a chunk and doubles across: the same for any number of threads.
namespace laconic::cpu {

/// mean and biased variance per channel of x, computed around `shift` (the running mean) against cancellation.
void batch_norm_statistics(float* mean, float* variance, const float* x, const ChannelView& v, const float* shift);

/// y = x * scale[c] + offset[c] (+ residual), then ReLU if asked. residual may be null. y may be x.
void batch_norm_apply(float* y, const float* x, const ChannelView& v, const float* scale, const float* offset,
                      const float* residual, bool relu);

/// First backward pass: g = (dy + dy2) where y > 0 (y null: everywhere), and per channel
///   sum_g = sum g,   sum_gx = sum g * (x - mean).   dy2 may be null; g may be dy.
void batch_norm_backward_sums(float* g, float* sum_g, float* sum_gx, const float* dy, const float* dy2, const float* y,
                              const float* x, const ChannelView& v, const float* mean);

/// Second backward pass: dx = a[c] * g + b[c] * x + d[c]. dx may be g.
void batch_norm_backward_data(float* dx, const float* g, const float* x, const ChannelView& v, const float* a,
                              const float* b, const float* d);

}  // namespace laconic::cpu
