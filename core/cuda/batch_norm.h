#pragma once
#include "core/cpu/batch_norm.h"

/// As core/cpu/batch_norm.h on the selected device, for images in channels_last and for [N, C].
namespace laconic::cuda {

using cpu::ChannelView;

void batch_norm_statistics(float* stats, const float* x, const ChannelView& v, const cpu::BatchNormParameters& p);
void batch_norm_apply(float* y, const float* x, const ChannelView& v, const float* scale, const float* offset,
                      const float* residual, bool relu);
void batch_norm_backward_sums(float* g, float* coefficients, const float* dy, const float* dy2, const float* y,
                              const float* x, const ChannelView& v, const cpu::BatchNormBackward& b);
void batch_norm_backward_data(float* dx, const float* g, const float* x, const ChannelView& v,
                              const float* coefficients);

}  // namespace laconic::cuda
