#pragma once
#include <functional>
#include <vector>

#include "core/ops/recurrent.h"
#include "layers/module.h"

namespace laconic {

/// A module that goes on from a state. Called without one it begins at zeros, as PyTorch does.
template <class State, class Base = Module>
class Stateful : public Base {
 public:
  using Base::Base;
  using Base::operator();
  /// Begins at `state` (undefined: zeros), and leaves there the state after the last step.
  Tensor operator()(const Tensor& x, State& state) {
    return this->call([&] { return run(x, state); });
  }

 private:
  Tensor forward(const Tensor& x) final {
    State zeros;
    return run(x, zeros);
  }
  virtual Tensor run(const Tensor& x, State& state) = 0;
};

/// What LSTM, GRU and RNN share: layers on top of each other, each reading the whole sequence of the one below.
///   x : [T, B, in]   ->   y : [T, B, hidden], the last layer's h at every step; [T, B, 2 hidden] in both directions
/// States are new memory without history, and belong to checkpoints. Throws ShapeError if x or the state does not fit.
class Recurrent : public Module {
 public:
  struct Options {
    int in = 0, hidden = 0, layers = 1;
    float dropout = 0;  ///< the share of each layer's output but the last's, in training; drawn by stream and step
    Initializer init = nullptr;  ///< initial values of all parameters, instead of the default below
    ops::Nonlinearity nonlinearity = ops::Nonlinearity::tanh;  ///< of RNN alone
    /// Each layer also reads the sequence backward, with weights of its own ("..._reverse"). The two results stand side
    /// by side, and in the state as [2 layers, B, hidden].
    bool bidirectional = false;
  };

 protected:
  /// Registers per layer "weight_ih_lL" [G hidden, in or hidden], "weight_hh_lL" [G hidden, hidden], "bias_ih_lL" and
  /// "bias_hh_lL" [G hidden] for G gates, ~ Uniform(-k, k), k = 1/sqrt(hidden): PyTorch's names and default.
  Recurrent(const char* what, int gates, Options o);

  /// One layer's recurrence. input : weight_ih x for all steps, [T, B, G hidden]   state : tensors [B, hidden],
  /// replaced
  using Layer = std::function<Tensor(Tensor input, const ops::RecurrentWeights& weights, std::vector<Tensor>& state)>;
  /// Runs all layers over x. state : tensors [layers, B, hidden], replaced
  Tensor run_layers(const Tensor& x, const std::vector<Tensor*>& state, const Layer& layer);

 private:
  Tensor dropped(const Tensor& below, std::size_t layer) const;
  Tensor initial(const Tensor& x, const Tensor& state) const;

  struct Parameters {
    std::shared_ptr<Parameter> weight_ih, weight_hh, bias_ih, bias_hh;
  };
  const char* what_;
  Options o_;
  std::vector<Parameters> layers_;  // both directions in turns: forward, backward
};

/// Long short-term memory, one or more layers. Gate order i f g o; formulas and source at ops::lstm.
///   state      h and c, [layers, B, hidden]
///   dropout    as in Zaremba et al. 2014
class LSTM final : public Stateful<ops::LstmState, Recurrent> {
 public:
  using State = ops::LstmState;
  explicit LSTM(Options o) : Stateful("LSTM", 4, o) {}

 private:
  Tensor run(const Tensor& x, State& state) override;
};

/// Gated recurrent units, one or more layers. Gate order r z n; formulas and source at ops::gru.
///   state   h, [layers, B, hidden]
class GRU final : public Stateful<Tensor, Recurrent> {
 public:
  explicit GRU(Options o) : Stateful("GRU", 3, o) {}

 private:
  Tensor run(const Tensor& x, Tensor& state) override;
};

/// A plain recurrent network, one or more layers. One gate; formula and source at ops::rnn.
///   state   h, [layers, B, hidden]
class RNN final : public Stateful<Tensor, Recurrent> {
 public:
  using Nonlinearity = ops::Nonlinearity;
  explicit RNN(Options o) : Stateful("RNN", 1, o), f_(o.nonlinearity) {}

 private:
  Tensor run(const Tensor& x, Tensor& state) override;
  Nonlinearity f_;
};

/// One time step of an LSTM, written out in elementary operations: to read, and to build other cells by changing it.
///   [i f g o] = x W_ih' + b_ih + h W_hh' + b_hh        i, f, o through the sigmoid, g through tanh
///   c' = f c + i g       h' = o tanh(c')
///   x : [B, in]   h, c : [B, hidden]   ->   h', c' : [B, hidden]
///   "weight_ih" [4 hidden, in], "weight_hh" [4 hidden, hidden], "bias_ih", "bias_hh" [4 hidden]
///             ~ Uniform(-k, k), k = 1/sqrt(hidden): PyTorch's names and default
/// Unlike in an LSTM layer the state has a history: gradients go through as many steps as are called one after another.
/// Many times slower than LSTM, whose kernels do the same. Source at ops::lstm.
/// Throws ShapeError if x or the state does not fit.
class LSTMCell final : public Stateful<ops::LstmState> {
 public:
  struct Options {
    int in = 0, hidden = 0;
  };
  using State = ops::LstmState;
  explicit LSTMCell(Options o);

 private:
  Tensor run(const Tensor& x, State& state) override;
  Options o_;
  std::shared_ptr<Parameter> weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};

}  // namespace laconic
