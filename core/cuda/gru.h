#pragma once
#include <cstdint>

/// As core/cpu/gru.h on the selected device.
namespace laconic::cuda {

void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                      const float* recurrent_bias, const float* h_before, std::int64_t batch, std::int64_t hidden);
void gru_cell_backward(float* gates, float* drecurrent, float* dh, const float* q, const float* h_before,
                       std::int64_t batch, std::int64_t hidden);

}  // namespace laconic::cuda
