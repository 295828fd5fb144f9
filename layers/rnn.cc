#include "layers/rnn.h"

namespace laconic {

Tensor RNN::forward(const Tensor& x) {
  Tensor zeros;
  return run(x, zeros);
}

Tensor RNN::operator()(const Tensor& x, Tensor& state) {
  return call([&] { return run(x, state); });
}

Tensor RNN::run(const Tensor& x, Tensor& state) {
  return run_layers(x, state, [this](const Tensor& sums, const ops::RecurrentWeights& weights, Tensor& h) {
    return ops::rnn(sums, weights, h, f_);
  });
}

}  // namespace laconic
