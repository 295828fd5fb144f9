#include "layers/lstm.h"

#include <algorithm>

#include "core/ops/dropout.h"
#include "layers/init.h"

namespace laconic {

LSTM::LSTM(Options o) : o_(o) {
  require<ShapeError>(o.in >= 1 && o.hidden >= 1 && o.layers >= 1, "LSTM: in = ", o.in, ", hidden = ", o.hidden,
                      ", layers = ", o.layers, " must be at least 1.");
  require<ShapeError>(o.dropout >= 0 && o.dropout < 1, "LSTM: dropout = ", o.dropout, " is not in [0, 1).");
  const std::int64_t gates = 4 * std::int64_t{o.hidden};
  const Initializer initializer = init::uniform_fan_in(o.hidden);
  for (int l = 0; l < o.layers; ++l) {
    const std::string layer = "_l" + std::to_string(l);
    const std::int64_t in = l == 0 ? o.in : o.hidden;
    layers_.push_back({parameter("weight_ih" + layer, {gates, in}, Role::recurrent, initializer),
                       parameter("weight_hh" + layer, {gates, o.hidden}, Role::recurrent, initializer),
                       parameter("bias_ih" + layer, {gates}, Role::bias, initializer),
                       parameter("bias_hh" + layer, {gates}, Role::bias, initializer)});
  }
}

Tensor LSTM::forward(const Tensor& x) {
  State zeros;
  return run(x, zeros);
}

Tensor LSTM::operator()(const Tensor& x, State& state) {
  return call([&] { return run(x, state); });
}

Tensor LSTM::run(const Tensor& x, State& state) {
  require<ShapeError>(x.rank() == 3 && x.dim(2) == o_.in, "LSTM: x is ", x.shape(), ", not [T, B, ", o_.in, "].");
  const Shape all{o_.layers, x.dim(1), o_.hidden}, one{x.dim(1), o_.hidden};
  State before = state;
  if (!before.h.defined()) before.h = Tensor::zeros(all, DType::f32, x.device());
  if (!before.c.defined()) before.c = Tensor::zeros(all, DType::f32, x.device());
  require<ShapeError>(before.h.shape() == all && before.c.shape() == all, "LSTM: x is ", x.shape(),
                      " but the state is h ", before.h.shape(), " and c ", before.c.shape(), ", not ", all,
                      ". Start from an empty state when the batch size changes.");
  const State after{Tensor::empty(all, DType::f32, x.device()), Tensor::empty(all, DType::f32, x.device())};
  Tensor y = x;
  for (int l = 0; l < o_.layers; ++l) {
    const Layer& layer = layers_[static_cast<std::size_t>(l)];
    if (l > 0) y = drop(y, l);
    ops::LstmState s{before.h.rows(l, 1).view(one), before.c.rows(l, 1).view(one)};
    y = ops::lstm(
        y, {layer.weight_ih->fresh(), layer.weight_hh->fresh(), layer.bias_ih->fresh(), layer.bias_hh->fresh()}, s);
    after.h.rows(l, 1).view(one).copy_from(s.h);
    after.c.rows(l, 1).view(one).copy_from(s.c);
  }
  state = after;
  return y;
}

Tensor LSTM::drop(const Tensor& y, int layer) const {
  const ForwardContext& c = context();
  if (!training() || !c.dropout) return y;
  // Keys of their own within this module: no model has 2^16 modules.
  const auto key = static_cast<std::uint32_t>(position()) + (static_cast<std::uint32_t>(layer) << 16);
  return ops::dropout(y, o_.dropout, {c.seed, key, c.step, c.first_sample, /*time_first=*/true});
}

}  // namespace laconic
