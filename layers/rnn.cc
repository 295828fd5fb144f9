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
  const Tensor before = initial(x, state), after = Tensor::empty(before.shape(), DType::f32, x.device());
  Tensor y = x;
  for (int l = 0; l < layers(); ++l) {
    Tensor h = of_layer(before, l);
    const Tensor sums = input_part(y, l);
    y = ops::rnn(sums, weights(l), h, f_);
    of_layer(after, l).copy_from(h);
  }
  state = after;
  return y;
}

}  // namespace laconic
