#pragma once
#include <cstdint>

/// As core/cpu/lstm.h on the selected device.
namespace laconic::cuda {

void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before, std::int64_t batch,
                       std::int64_t hidden);
void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden);

}  // namespace laconic::cuda
