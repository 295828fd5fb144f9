#pragma once
#include "core/ops/rnn.h"
#include "layers/recurrent.h"

namespace laconic {

/// A plain recurrent network, one or more layers.
///   x : [T, B, in]   ->   y : [T, B, hidden], the last layer's h at every step
///   parameters as in layers/recurrent.h with one gate; formula and source at ops::rnn
/// Throws ShapeError if x or the state does not fit.
class RNN final : public Recurrent {
 public:
  using Nonlinearity = ops::Nonlinearity;
  struct Options {
    int in = 0, hidden = 0, layers = 1;
    float dropout = 0;           ///< as of an LSTM
    Initializer init = nullptr;  ///< likewise
    Nonlinearity nonlinearity = Nonlinearity::tanh;
  };
  explicit RNN(Options o) : Recurrent("RNN", 1, {o.in, o.hidden, o.layers, o.dropout, o.init}), f_(o.nonlinearity) {}
  using Module::operator();
  /// Begins at `state`, h as [layers, B, hidden] (undefined: zeros), and leaves there the state after the last step, in
  /// new memory without history. Belongs to a checkpoint.
  Tensor operator()(const Tensor& x, Tensor& state);

 protected:
  Tensor forward(const Tensor& x) override;  ///< from zeros, as PyTorch

 private:
  Tensor run(const Tensor& x, Tensor& state);
  Nonlinearity f_;
};

}  // namespace laconic
