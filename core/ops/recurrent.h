#pragma once
#include <cstdint>

#include "core/autograd.h"

/// What the recurrent operations (ops::lstm, ops::gru) share.
namespace laconic::ops {

/// A layer's weights under PyTorch's names, for G gates: [G H, in], [G H, H], [G H], [G H].
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

struct RecurrentExtents {
  std::int64_t steps, batch, in, hidden, width;  ///< width = G H
};

/// The extents of x [T, B, in]. Throws ShapeError if x, the weights for that many gates, or a state [B, H] do not fit.
RecurrentExtents recurrent_extents(const char* what, const Tensor& x, const RecurrentWeights& w, int gates,
                                   std::initializer_list<std::reference_wrapper<const Tensor>> states);

/// Inputs of a recorded recurrent operation: x, then the weights.
inline constexpr int kRecurrentX = 0, kWeightIh = 1, kWeightHh = 2, kBiasIh = 3, kBiasHh = 4;

/// A weight's gradient dw = dgates' input over all steps.   dgates : [rows, width]   input : [rows, in]
void recurrent_weight_gradient(Grads& grads, int weight, const float* input, const float* dgates, std::int64_t rows,
                               std::int64_t in, std::int64_t width, Device device);
/// dx = dgates W_ih.
void recurrent_data_gradient(Grads& grads, const Tensor& x, const Tensor& weight_ih, const float* dgates);

/// The last of the steps of [T, B, H] as [B, H], copied so that it does not keep the sequence.
Tensor last_step(const Tensor& all);

}  // namespace laconic::ops
