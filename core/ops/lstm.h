#pragma once
#include "core/ops/recurrent.h"

namespace laconic::ops {

/// What a sequence hands to the next one.
struct LstmState {
  Tensor h, c;  ///< [B, H]
};

/// The recurrence of one layer over a whole sequence, PyTorch's gate order i, f, g, o.
///   input : x_t W_ih' of every step, [T, B, 4 H], T and B at least 1   ->   h of every step : [T, B, H]
///   [i f g o] = input_t + b_ih + h_{t-1} W_hh' + b_hh        i, f, o through the sigmoid, g through tanh
///   c_t = f c_{t-1} + i g       h_t = o tanh(c_t)
/// `state` is h and c before the first step and becomes (in new memory, without history) those after the last.
/// Backward goes through all T steps and stops at the initial state (truncated backpropagation through time).
///   cost     one product (RecurrentProduct) and one pass over the gates per step; the weight's gradient is one product
///            over all steps, handed over by Grads::chunk_rows before the input's
///   memory   of `input`, if handed over (moved), is used for the gates and then for their gradient
///   saves    the activated gates [T, B, 4 H], c and h: 24 H bytes a symbol
///   source   Hochreiter & Schmidhuber 1997, forget gate of Gers et al. 2000; the formulas are PyTorch's
/// Throws ShapeError if the shapes do not fit.
Tensor lstm(Tensor input, const RecurrentWeights& weights, LstmState& state);

}  // namespace laconic::ops
