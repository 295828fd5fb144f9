#include "layers/lstm_cell.h"

#include "core/ops/activation.h"
#include "core/ops/join.h"
#include "core/ops/linear.h"
#include "layers/init.h"

namespace laconic {

LSTMCell::LSTMCell(Options o) : o_(o) {
  require<ShapeError>(o.in >= 1 && o.hidden >= 1, "LSTMCell: in = ", o.in, ", hidden = ", o.hidden,
                      " must be at least 1.");
  const std::int64_t width = 4 * std::int64_t{o.hidden};
  const Initializer initializer = init::uniform_fan_in(o.hidden);
  weight_ih_ = parameter("weight_ih", {width, o.in}, Role::recurrent, initializer);
  weight_hh_ = parameter("weight_hh", {width, o.hidden}, Role::recurrent, initializer);
  bias_ih_ = parameter("bias_ih", {width}, Role::bias, initializer);
  bias_hh_ = parameter("bias_hh", {width}, Role::bias, initializer);
}

Tensor LSTMCell::forward(const Tensor& x) {
  State zeros;
  return run(x, zeros);
}

Tensor LSTMCell::operator()(const Tensor& x, State& state) {
  return call([&] { return run(x, state); });
}

Tensor LSTMCell::run(const Tensor& x, State& state) {
  require<ShapeError>(x.rank() == 2 && x.dim(1) == o_.in, "LSTMCell: x is ", x.shape(), ", not [B, ", o_.in, "].");
  const std::int64_t H = o_.hidden;
  const Shape shape{x.dim(0), H};
  for (Tensor* s : {&state.h, &state.c}) {
    if (!s->defined()) *s = Tensor::zeros(shape, DType::f32, x.device());
    require<ShapeError>(s->shape() == shape, "LSTMCell: the state is ", s->shape(), ", not ", shape, ".");
  }
  const Tensor gates = ops::add(ops::linear(x, *weight_ih_, bias_ih_->fresh()),
                                ops::linear(state.h, *weight_hh_, bias_hh_->fresh()));
  const Tensor i = ops::sigmoid(ops::columns(gates, 0, H)), f = ops::sigmoid(ops::columns(gates, H, H));
  const Tensor g = ops::tanh(ops::columns(gates, 2 * H, H)), o = ops::sigmoid(ops::columns(gates, 3 * H, H));
  state.c = ops::add(ops::multiply(f, state.c), ops::multiply(i, g));
  state.h = ops::multiply(o, ops::tanh(state.c));
  return state.h;
}

}  // namespace laconic
