#pragma once
#include "layers/recurrent.h"

namespace laconic {

/// Long short-term memory, one or more layers.
///   x : [T, B, in]   ->   y : [T, B, hidden], the last layer's h at every step
///   parameters as in layers/recurrent.h, gate order i f g o; formulas and source at ops::lstm
///   dropout    as in Zaremba et al. 2014
/// Throws ShapeError if x or the state does not fit.
class LSTM final : public Recurrent {
 public:
  /// What one segment of a text hands to the next; without history. Belongs to a checkpoint.
  struct State {
    Tensor h, c;  ///< [layers, B, hidden]; undefined: zeros
  };
  explicit LSTM(Options o) : Recurrent("LSTM", 4, o) {}
  using Module::operator();
  /// Begins at `state` and leaves there the state after the last step (new tensors).
  Tensor operator()(const Tensor& x, State& state);

 protected:
  Tensor forward(const Tensor& x) override;  ///< from zeros, as PyTorch

 private:
  Tensor run(const Tensor& x, State& state);
};

}  // namespace laconic
