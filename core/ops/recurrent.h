#pragma once
#include <cstdint>

#include "core/autograd.h"

/// What the recurrent operations (ops::lstm, ops::gru, ops::rnn) share. They begin where a layer's product with its
/// input ends: x W_ih' of all time steps at once is an ops::linear, which awaits and finishes its weight by chunks.
namespace laconic::ops {

/// A layer's other weights under PyTorch's names, for G gates: [G H, H], [G H], [G H].
struct RecurrentWeights {
  Tensor weight_hh, bias_ih, bias_hh;
};

struct RecurrentExtents {
  std::int64_t steps, batch, hidden, width;  ///< width = G H
};

/// The extents of an input part [T, B, G H]. Throws ShapeError if it, the weights for that many gates, or a state
/// [B, H] do not fit.
RecurrentExtents recurrent_extents(const char* what, const Tensor& input, const RecurrentWeights& w, int gates,
                                   std::initializer_list<std::reference_wrapper<const Tensor>> states);

/// Inputs of a recorded recurrent operation.
inline constexpr int kInputPart = 0, kWeightHh = 1, kBiasIh = 2, kBiasHh = 3;

/// The memory of `t` if nobody else holds it, so that it may be written into; else of a copy.
Tensor own_memory(Tensor t);

/// The gradient of biases that are all added to the same sums: dgates [T, B, width] added up over steps and batch.
void bias_gradients(Grads& grads, std::initializer_list<int> biases, const Tensor& dgates);

/// The last of the steps of [T, B, H] as [B, H], copied so that it does not keep the sequence.
Tensor last_step(const Tensor& all);

}  // namespace laconic::ops
