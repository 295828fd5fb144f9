#include "layers/lstm.h"

#include <utility>

#include "core/ops/lstm.h"

namespace laconic {

Tensor LSTM::forward(const Tensor& x) {
  State zeros;
  return run(x, zeros);
}

Tensor LSTM::operator()(const Tensor& x, State& state) {
  return call([&] { return run(x, state); });
}

Tensor LSTM::run(const Tensor& x, State& state) {
  const State before{initial(x, state.h), initial(x, state.c)};
  const State after{Tensor::empty(before.h.shape(), DType::f32, x.device()),
                    Tensor::empty(before.c.shape(), DType::f32, x.device())};
  Tensor y = x;
  for (int l = 0; l < layers(); ++l) {
    ops::LstmState s{of_layer(before.h, l), of_layer(before.c, l)};
    Tensor sums = input_part(y, l);
    y = ops::lstm(std::move(sums), weights(l), s);
    of_layer(after.h, l).copy_from(s.h);
    of_layer(after.c, l).copy_from(s.c);
  }
  state = after;
  return y;
}

}  // namespace laconic
