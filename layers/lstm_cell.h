#pragma once
#include "layers/module.h"

namespace laconic {

/// One time step of an LSTM, written out in elementary operations: to read, and to build other cells by changing it.
///   [i f g o] = x W_ih' + b_ih + h W_hh' + b_hh        i, f, o through the sigmoid, g through tanh
///   c' = f c + i g       h' = o tanh(c')
///   x : [B, in]   h, c : [B, hidden]   ->   h', c' : [B, hidden]
///   "weight_ih" [4 hidden, in], "weight_hh" [4 hidden, hidden], "bias_ih", "bias_hh" [4 hidden]
///             ~ Uniform(-k, k), k = 1/sqrt(hidden): PyTorch's names and default
/// Unlike in an LSTM layer the state has a history: gradients go through as many steps as are called one after another.
/// Many times slower than LSTM, whose kernels do the same. Source at ops::lstm.
/// Throws ShapeError if x or the state does not fit.
class LSTMCell final : public Module {
 public:
  struct Options {
    int in = 0, hidden = 0;
  };
  struct State {
    Tensor h, c;  ///< [B, hidden]; undefined: zeros
  };
  explicit LSTMCell(Options o);
  using Module::operator();
  /// h'. Begins at `state` and leaves h' and c' there.
  Tensor operator()(const Tensor& x, State& state);

 protected:
  Tensor forward(const Tensor& x) override;  ///< from zeros

 private:
  Tensor run(const Tensor& x, State& state);
  Options o_;
  std::shared_ptr<Parameter> weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};

}  // namespace laconic
