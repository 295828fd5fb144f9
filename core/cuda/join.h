#pragma once
#include "core/cpu/layout.h"

/// As core/cpu/join.h on the selected device.
namespace laconic::cuda {

using cpu::ChannelView;

void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width);
void add_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
              std::int64_t width);
void shortcut_forward(float* y, const float* x, const ChannelView& out, const ChannelView& in, std::int64_t h,
                      std::int64_t w, std::int64_t shift);
void shortcut_backward(float* dx, const float* dy, const ChannelView& out, const ChannelView& in, std::int64_t h,
                       std::int64_t w, std::int64_t shift);

}  // namespace laconic::cuda
