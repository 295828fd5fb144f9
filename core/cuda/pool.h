#pragma once
#include "core/cpu/pool.h"

/// As core/cpu/pool.h on the selected device. Backward passes gather: each input asks the windows that hold it, in
/// their order.
namespace laconic::cuda {

void max_pool_forward(float* y, std::uint8_t* index, const float* x, const cpu::PoolShape& s);
void max_pool_backward(float* dx, const float* dy, const std::uint8_t* index, const cpu::PoolShape& s);
void average_pool_forward(float* y, const float* x, std::int64_t images, std::int64_t width, const cpu::Averages& rows,
                          const cpu::Averages& columns);
void average_pool_backward(float* dx, const float* dy, std::int64_t images, std::int64_t width,
                           const cpu::Averages& rows, const cpu::Averages& columns);

}  // namespace laconic::cuda
