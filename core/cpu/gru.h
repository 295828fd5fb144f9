#pragma once
#include <cstdint>

/// What is between the matrix products of a GRU. Gates lie as PyTorch's [B][r z n][H].   source: Cho et al. 2014, with
/// the reset gate after the recurrent product and its bias, as in PyTorch and cuDNN
namespace laconic::cpu {

/// gates: input part in, activated out (r, z by the sigmoid, n by tanh). recurrent: h_before W_hh'. Both without their
/// biases [3 H].
///   n = tanh(gates_n + bias_n + r q), q = recurrent_n + recurrent_bias_n    h = (1 - z) n + z h_before   q, h : [B, H]
void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                      const float* recurrent_bias, const float* h_before, std::int64_t batch, std::int64_t hidden);
/// gates: activated in, the gradient of the input part out; drecurrent: that of the recurrent one, which differs in n
/// only. dh arrives as the gradient of h and leaves as what of that for h_before does not go through W_hh.
void gru_cell_backward(float* gates, float* drecurrent, float* dh, const float* q, const float* h_before,
                       std::int64_t batch, std::int64_t hidden);

}  // namespace laconic::cpu
