#pragma once
#include <cstdint>

/// What is between the matrix products of an LSTM: gate arithmetic, one pass over memory per time step. Gates lie as
/// PyTorch's [B][i f g o][H].   source: Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000
namespace laconic::cpu {

/// gates: sums in, but for their bias [4 H]; activated out (i, f, o by the sigmoid, g by tanh).
///   c = f c_before + i g      h = o tanh(c)       all [B, H]
void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before, std::int64_t batch,
                       std::int64_t hidden);
/// gates: activated in, the gradient of their sums out. dy + dh is the gradient of h, from outside and from the later
/// step; dc arrives as that of c from the later step and leaves as that for the earlier one.
void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden);

}  // namespace laconic::cpu
