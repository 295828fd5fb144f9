#pragma once
#include "core/cpu/layout.h"

namespace laconic::cpu {

/// Copies `rows` runs of `width` floats, `to_stride` and `from_stride` apart.
void copy_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
               std::int64_t width);
/// Adds them instead.
void add_rows(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
              std::int64_t width);

/// Every second pixel and `shift` channels later: y[n, c + shift, i, j] = x[n, c, 2i, 2j], 0 in the other channels.
/// x is [N, C, h, w] as `in`, y is [N, C', (h + 1) / 2, (w + 1) / 2] as `out`.
void shortcut_forward(float* y, const float* x, const ChannelView& out, const ChannelView& in, std::int64_t h,
                      std::int64_t w, std::int64_t shift);
/// dx[n, c, 2i, 2j] = dy[n, c + shift, i, j], 0 elsewhere.
void shortcut_backward(float* dx, const float* dy, const ChannelView& out, const ChannelView& in, std::int64_t h,
                       std::int64_t w, std::int64_t shift);

}  // namespace laconic::cpu
