#pragma once
#include <utility>
#include <vector>

#include "core/ops/recurrent.h"
#include "layers/module.h"

namespace laconic {

/// What LSTM, GRU and RNN share: layers on top of each other, each reading the whole sequence of the one below.
class Recurrent : public Module {
 public:
  struct Options {
    int in = 0, hidden = 0, layers = 1;
    float dropout = 0;  ///< of every layer's output but the last's, in training: by stream and step (layers/dropout.h)
    Initializer init = nullptr;  ///< of all parameters, instead of that below
  };

 protected:
  /// Registers per layer "weight_ih_lL" [G hidden, in or hidden], "weight_hh_lL" [G hidden, hidden], "bias_ih_lL" and
  /// "bias_hh_lL" [G hidden] for G gates, ~ Uniform(-k, k), k = 1/sqrt(hidden): PyTorch's names and default.
  Recurrent(const char* what, int gates, Options o);

  int layers() const { return o_.layers; }
  /// Awaits what layer l's recurrence reads: all of its parameters but weight_ih.
  ops::RecurrentWeights weights(int layer);
  /// What layer l's recurrence reads of its input, given what the layer below wrote (or x): after dropout, times
  /// weight_ih' for all steps, [T, B, G hidden]. Awaits that weight, by chunks if it travels so.
  Tensor input_part(const Tensor& below, int layer);
  /// The state [layers, B, hidden], zeros if undefined. Throws ShapeError if x or the state does not fit.
  Tensor initial(const Tensor& x, const Tensor& state) const;
  /// All layers over x, each as op(its input part, its weights, its state h), which goes on from `state` (undefined:
  /// zeros). Returns what the last one wrote and leaves the new state, in new memory.
  template <class Op>
  Tensor run_layers(const Tensor& x, Tensor& state, Op op);
  /// One layer's [B, hidden] of a state; shares memory.
  static Tensor of_layer(const Tensor& state, int layer);

 private:
  struct Layer {
    std::shared_ptr<Parameter> weight_ih, weight_hh, bias_ih, bias_hh;
  };
  const char* what_;
  Options o_;
  std::vector<Layer> layers_;
};

template <class Op>
Tensor Recurrent::run_layers(const Tensor& x, Tensor& state, Op op) {
  const Tensor before = initial(x, state), after = Tensor::empty(before.shape(), DType::f32, x.device());
  Tensor y = x;
  for (int l = 0; l < layers(); ++l) {
    Tensor h = of_layer(before, l);
    Tensor sums = input_part(y, l);  // before weights(l) awaits what the recurrence needs
    y = op(std::move(sums), weights(l), h);
    of_layer(after, l).copy_from(h);
  }
  state = after;
  return y;
}

}  // namespace laconic
