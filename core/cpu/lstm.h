#pragma once
#include <cstdint>

/// What is between the matrix products of an LSTM: gate arithmetic, one pass over memory per time step. Gates lie as
/// PyTorch's [B][i f g o][H].   source: Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000
namespace laconic::cpu {

/// gates: sums in, activated out (i, f, o by the sigmoid, g by tanh).
///   c = f c_before + i g      h = o tanh(c)       all [B, H]
void lstm_cell_forward(float* gates, float* c, float* h, const float* c_before, std::int64_t batch,
                       std::int64_t hidden);
/// dgates: gradient of the sums, from the activated gates, c and dh. dc arrives as the gradient from the later step and
/// leaves as that for the earlier one.
void lstm_cell_backward(float* dgates, float* dc, const float* dh, const float* gates, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden);

}  // namespace laconic::cpu
