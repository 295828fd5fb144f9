#pragma once
#include "layers/recurrent.h"

namespace laconic {

/// Gated recurrent units, one or more layers.
///   x : [T, B, in]   ->   y : [T, B, hidden], the last layer's h at every step
///   parameters as in layers/recurrent.h, gate order r z n; formulas and source at ops::gru
/// Throws ShapeError if x or the state does not fit.
class GRU final : public Recurrent {
 public:
  explicit GRU(Options o) : Recurrent("GRU", 3, o) {}
  using Module::operator();
  /// Begins at `state`, h as [layers, B, hidden] (undefined: zeros), and leaves there the state after the last step, in
  /// new memory without history. Belongs to a checkpoint.
  Tensor operator()(const Tensor& x, Tensor& state);

 protected:
  Tensor forward(const Tensor& x) override;  ///< from zeros, as PyTorch

 private:
  Tensor run(const Tensor& x, Tensor& state);
};

}  // namespace laconic
