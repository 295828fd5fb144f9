#pragma once
#include <vector>

#include "core/ops/lstm.h"
#include "layers/module.h"

namespace laconic {

/// Long short-term memory, one or more layers, each reading the whole sequence of the one below.
///   x : [T, B, in]   ->   y : [T, B, hidden], the last layer's h at every step
///   per layer l, PyTorch's names, gate order (i f g o) and default ~ Uniform(-k, k), k = 1/sqrt(hidden):
///     "weight_ih_lL" [4 hidden, in or hidden]   "weight_hh_lL" [4 hidden, hidden]   "bias_ih_lL", "bias_hh_lL" [4 hidden]
///   dropout   of every layer's output but the last's, in training (masks as in layers/dropout.h, by stream and step)
///   source    Hochreiter & Schmidhuber 1997; dropout as in Zaremba et al. 2014
/// Throws ShapeError if x or the state does not fit.
class LSTM final : public Module {
 public:
  struct Options {
    int in = 0, hidden = 0, layers = 1;
    float dropout = 0;
  };
  /// What one segment of a text hands to the next; without history. Belongs to a checkpoint.
  struct State {
    Tensor h, c;  ///< [layers, B, hidden]; undefined: zeros
  };
  explicit LSTM(Options o);
  using Module::operator();
  /// Begins at `state` and leaves there the state after the last step (new tensors).
  Tensor operator()(const Tensor& x, State& state);

 protected:
  Tensor forward(const Tensor& x) override;  ///< from zeros, as PyTorch

 private:
  struct Layer {
    std::shared_ptr<Parameter> weight_ih, weight_hh, bias_ih, bias_hh;
  };
  Tensor run(const Tensor& x, State& state);
  Tensor drop(const Tensor& y, int layer) const;
  Options o_;
  std::vector<Layer> layers_;
};

}  // namespace laconic
