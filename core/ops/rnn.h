#pragma once
#include "core/ops/recurrent.h"

namespace laconic::ops {

/// What is between the sums of a plain recurrent network and its state.
enum class Nonlinearity : std::uint8_t { tanh, relu };

/// The recurrence of one plain (Elman) layer over a whole sequence.
///   input : x_t W_ih' of every step, [T, B, H], T and B at least 1   ->   h of every step : [T, B, H]
///   h_t = f(input_t + b_ih + h_{t-1} W_hh' + b_hh)
/// `state` is h [B, H] before the first step and becomes (in new memory, without history) that after the last.
/// Backward goes through all T steps and stops at the initial state. Cost as ops::lstm's, with 1/4 of the products.
///   saves    h: 4 H bytes a symbol
///   source   Elman 1990; the formulas are PyTorch's
/// Throws ShapeError if the shapes do not fit.
Tensor rnn(const Tensor& input, const RecurrentWeights& weights, Tensor& state, Nonlinearity f);

}  // namespace laconic::ops
