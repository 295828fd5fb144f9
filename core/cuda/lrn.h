#pragma once
#include "core/cpu/lrn.h"

/// As core/cpu/lrn.h on the selected device, for images in channels_last and for [N, C].
namespace laconic::cuda {

using cpu::ChannelView;

void lrn_forward(float* y, const float* x, const ChannelView& v, const cpu::LrnShape& s);
void lrn_backward(float* dx, const float* dy, const float* x, const ChannelView& v, const cpu::LrnShape& s);

}  // namespace laconic::cuda
