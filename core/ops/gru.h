#pragma once
#include "core/ops/recurrent.h"

namespace laconic::ops {

/// The recurrence of one layer over a whole sequence, PyTorch's gate order r, z, n.
///   input : x_t W_ih' of every step, [T, B, 3 H], T and B at least 1   ->   h of every step : [T, B, H]
///   r, z = sigmoid(input_t + b_ih + h_{t-1} W_hh' + b_hh)
///   n = tanh(input_t + b_in + r (h_{t-1} W_hn' + b_hn))       h_t = (1 - z) n + z h_{t-1}
/// `state` is h [B, H] before the first step and becomes (in new memory, without history) that after the last.
/// Backward goes through all T steps and stops at the initial state. Cost and memory as ops::lstm's, with 3/4 of the
/// products.
///   saves    the activated gates [T, B, 3 H], h and the recurrent part of n: 20 H bytes a symbol
///   source   Cho et al. 2014; the formulas are PyTorch's
/// Throws ShapeError if the shapes do not fit.
Tensor gru(Tensor input, const RecurrentWeights& weights, Tensor& state);

}  // namespace laconic::ops
