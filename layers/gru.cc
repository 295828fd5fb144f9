#include "layers/gru.h"

#include <utility>

#include "core/ops/gru.h"

namespace laconic {

Tensor GRU::forward(const Tensor& x) {
  Tensor zeros;
  return run(x, zeros);
}

Tensor GRU::operator()(const Tensor& x, Tensor& state) {
  return call([&] { return run(x, state); });
}

Tensor GRU::run(const Tensor& x, Tensor& state) {
  const Tensor before = initial(x, state), after = Tensor::empty(before.shape(), DType::f32, x.device());
  Tensor y = x;
  for (int l = 0; l < layers(); ++l) {
    Tensor h = of_layer(before, l);
    Tensor sums = input_part(y, l);
    y = ops::gru(std::move(sums), weights(l), h);
    of_layer(after, l).copy_from(h);
  }
  state = after;
  return y;
}

}  // namespace laconic
