#pragma once
#include "core/ops/recurrent.h"

namespace laconic::ops {

/// One layer over a whole sequence, PyTorch's gate order r, z, n (G = 3).
///   x : [T, B, in], T and B at least 1   ->   h of every step : [T, B, H]
///   r, z = sigmoid(x_t W_ih' + b_ih + h_{t-1} W_hh' + b_hh)
///   n = tanh(x_t W_in' + b_in + r (h_{t-1} W_hn' + b_hn))       h_t = (1 - z) n + z h_{t-1}
/// `state` is h [B, H] before the first step and becomes (in new memory, without history) that after the last.
/// Backward goes through all T steps and stops at the initial state. Cost as ops::lstm's, with 3/4 of the products.
///   saves    x, the activated gates [T, B, 3 H], h and the recurrent part of n: 20 H bytes a symbol besides x
///   source   Cho et al. 2014; the formulas are PyTorch's
/// Throws ShapeError if the shapes do not fit.
Tensor gru(const Tensor& x, const RecurrentWeights& weights, Tensor& state);

}  // namespace laconic::ops
