#pragma once
#include <cstdint>

#include "core/autograd.h"

/// The recurrences of one layer over a whole sequence. They begin where the layer's product with its input ends: of
/// all time steps at once that is an ops::linear, which awaits and finishes its weight by chunks.
///   input : x_t W_ih' of every step, [T, B, G H], T and B at least 1, for G gates   ->   h of every step : [T, B, H]
/// `state` is what the sequence begins with and becomes (in new memory, without history) what it ends with. Backward
/// goes through all T steps and stops at the initial state (truncated backpropagation through time).
///   cost     one product h W_hh' (packed once) and one pass over the gates per step; the weight's gradient is one
///            product over all steps, handed over by Grads::chunk_rows before the input's
///   memory   of `input`, if handed over (moved), is used for the gates and then for their gradient
///   source   the formulas are PyTorch's, and so is the order of the gates
/// Throws ShapeError if the shapes do not fit.
namespace laconic::inline ops {

/// A layer's other weights under PyTorch's names, for G gates: [G H, H], [G H], [G H].
struct RecurrentWeights {
  Tensor weight_hh, bias_ih, bias_hh;
};

/// What an LSTM hands to its next sequence.
struct LstmState {
  Tensor h, c;  ///< [B, H]
};
/// Gates i, f, g, o.
///   [i f g o] = input_t + b_ih + h_{t-1} W_hh' + b_hh        i, f, o through the sigmoid, g through tanh
///   c_t = f c_{t-1} + i g       h_t = o tanh(c_t)
///   saves    the activated gates [T, B, 4 H], c and h: 24 H bytes a symbol
///   source   Hochreiter & Schmidhuber 1997, forget gate of Gers et al. 2000
Tensor lstm(Tensor input, const RecurrentWeights& weights, LstmState& state);

/// Gates r, z, n; the state is h [B, H].
///   r, z = sigmoid(input_t + b_ih + h_{t-1} W_hh' + b_hh)
///   n = tanh(input_t + b_in + r (h_{t-1} W_hn' + b_hn))       h_t = (1 - z) n + z h_{t-1}
///   saves    the activated gates [T, B, 3 H], h and the recurrent part of n: 20 H bytes a symbol
///   source   Cho et al. 2014
Tensor gru(Tensor input, const RecurrentWeights& weights, Tensor& state);

/// What is between the sums of a plain recurrent network and its state.
enum class Nonlinearity : std::uint8_t { tanh, relu };
/// A plain (Elman) layer: G = 1, and the state is h [B, H].
///   h_t = f(input_t + b_ih + h_{t-1} W_hh' + b_hh)
///   saves    h: 4 H bytes a symbol
///   source   Elman 1990
Tensor rnn(const Tensor& input, const RecurrentWeights& weights, Tensor& state, Nonlinearity f);

}  // namespace laconic::inline ops
