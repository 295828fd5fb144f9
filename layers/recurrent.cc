#include "layers/recurrent.h"

#include <string>

#include "core/ops/dropout.h"
#include "core/ops/functions.h"
#include "core/ops/linear.h"
#include "core/ops/reshape.h"

namespace laconic {

Recurrent::Recurrent(const char* what, int gates, Options o) : what_(what), o_(o) {
  require<ShapeError>(o.in >= 1 && o.hidden >= 1 && o.layers >= 1, what, ": in = ", o.in, ", hidden = ", o.hidden,
                      ", layers = ", o.layers, " must be at least 1.");
  require<ShapeError>(o.dropout >= 0 && o.dropout < 1, what, ": dropout = ", o.dropout, " is not in [0, 1).");
  const std::int64_t width = gates * std::int64_t{o.hidden};
  const Initializer initializer = o.init ? o.init : init::uniform_fan_in(o.hidden);
  const int directions = o.bidirectional ? 2 : 1;
  for (int l = 0; l < o.layers; ++l)
    for (int d = 0; d < directions; ++d) {
      const std::string layer = "_l" + std::to_string(l) + (d == 1 ? "_reverse" : "");
      const std::int64_t in = l == 0 ? o.in : directions * o.hidden;
      layers_.push_back({parameter("weight_ih" + layer, {width, in}, Role::recurrent, initializer),
                         parameter("weight_hh" + layer, {width, o.hidden}, Role::recurrent, initializer),
                         parameter("bias_ih" + layer, {width}, Role::bias, initializer),
                         parameter("bias_hh" + layer, {width}, Role::bias, initializer)});
    }
}

/// The output of the layer below, after dropout.
Tensor Recurrent::dropped(const Tensor& below, std::size_t layer) const {
  const ForwardContext& c = context();
  if (layer == 0 || !training() || !c.dropout) return below;
  // Keys of their own within this module: no model has 2^16 modules.
  const auto key = static_cast<std::uint32_t>(position()) + (static_cast<std::uint32_t>(layer) << 16);
  return ops::dropout(below, o_.dropout, {c.seed, key, c.step, c.first_sample, /*time_first=*/true});
}

/// x times weight_ih' for all steps. Awaits that weight, by chunks if it travels so.
static Tensor input_part(const Tensor& x, Parameter& weight_ih) {
  const std::int64_t steps = x.dim(0), batch = x.dim(1);
  const Tensor sums = ops::linear(ops::reshape(x, {steps * batch, x.dim(2)}), weight_ih, {});
  return ops::reshape(sums, {steps, batch, sums.dim(1)});
}

/// The state, zeros if it is undefined.
Tensor Recurrent::initial(const Tensor& x, const Tensor& state) const {
  require<ShapeError>(x.rank() == 3 && x.dim(0) >= 1 && x.dim(1) >= 1 && x.dim(2) == o_.in, what_, ": x is ",
                      x.shape(), ", not [T, B, ", o_.in, "] with at least one step and one row.");
  const Shape shape{static_cast<std::int64_t>(layers_.size()), x.dim(1), o_.hidden};
  if (!state.defined()) return Tensor::zeros(shape, DType::f32, x.device());
  require<ShapeError>(state.shape() == shape, what_, ": x is ", x.shape(), " but the state is ", state.shape(),
                      ", not ", shape, ". Start from an empty state when the batch size changes.");
  return state;
}

Tensor Recurrent::run_layers(const Tensor& x, const std::vector<Tensor*>& state, const Layer& layer) {
  std::vector<Tensor> before, after;
  for (const Tensor* s : state) before.push_back(initial(x, *s));
  for (const Tensor& b : before) after.push_back(Tensor::empty(b.shape(), DType::f32, x.device()));
  const auto of_layer = [](const Tensor& all, std::size_t l) {  // [B, hidden], in its memory
    return all.rows(static_cast<std::int64_t>(l), 1).view({all.dim(1), all.dim(2)});
  };
  const std::size_t directions = o_.bidirectional ? 2 : 1;
  Tensor y = x;
  for (std::size_t first = 0; first < layers_.size(); first += directions) {
    Tensor below = dropped(y, first / directions);
    std::vector<Tensor> results;
    for (std::size_t l = first; l < first + directions; ++l) {
      std::vector<Tensor> own;
      for (const Tensor& b : before) own.push_back(of_layer(b, l));
      const bool reverse = l > first;
      const Parameters& p = layers_[l];
      Tensor input = input_part(reverse ? ops::flip(below, 0) : below, *p.weight_ih);  // before the others are awaited
      if (l + 1 == first + directions) below = {};
      const Tensor h = layer(std::move(input), {p.weight_hh->fresh(), p.bias_ih->fresh(), p.bias_hh->fresh()}, own);
      results.push_back(reverse ? ops::flip(h, 0) : h);
      for (std::size_t s = 0; s < own.size(); ++s) of_layer(after[s], l).copy_from(own[s]);
    }
    y = directions == 1 ? results[0] : ops::cat(results, 2);
  }
  for (std::size_t s = 0; s < after.size(); ++s) *state[s] = after[s];
  return y;
}

Tensor LSTM::run(const Tensor& x, State& state) {
  return run_layers(x, {&state.h, &state.c}, [](Tensor input, const auto& weights, std::vector<Tensor>& own) {
    State s{own[0], own[1]};
    Tensor y = ops::lstm(std::move(input), weights, s);
    own = {s.h, s.c};
    return y;
  });
}

Tensor GRU::run(const Tensor& x, Tensor& state) {
  return run_layers(x, {&state}, [](Tensor input, const auto& weights, std::vector<Tensor>& own) {
    return ops::gru(std::move(input), weights, own[0]);
  });
}

Tensor RNN::run(const Tensor& x, Tensor& state) {
  return run_layers(x, {&state}, [this](const Tensor& input, const auto& weights, std::vector<Tensor>& own) {
    return ops::rnn(input, weights, own[0], f_);
  });
}

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

Tensor LSTMCell::run(const Tensor& x, State& state) {
  require<ShapeError>(x.rank() == 2 && x.dim(1) == o_.in, "LSTMCell: x is ", x.shape(), ", not [B, ", o_.in, "].");
  const std::int64_t H = o_.hidden;
  const Shape shape{x.dim(0), H};
  for (Tensor* s : {&state.h, &state.c}) {
    if (!s->defined()) *s = Tensor::zeros(shape, DType::f32, x.device());
    require<ShapeError>(s->shape() == shape, "LSTMCell: the state is ", s->shape(), ", not ", shape, ".");
  }
  const Tensor gates =
      ops::add(ops::linear(x, *weight_ih_, bias_ih_->fresh()), ops::linear(state.h, *weight_hh_, bias_hh_->fresh()));
  const auto gate = [&](std::int64_t which) { return ops::slice(gates, 1, which * H, (which + 1) * H); };
  const Tensor i = ops::sigmoid(gate(0)), f = ops::sigmoid(gate(1)), g = ops::tanh(gate(2)), o = ops::sigmoid(gate(3));
  state.c = ops::add(ops::multiply(f, state.c), ops::multiply(i, g));
  state.h = ops::multiply(o, ops::tanh(state.c));
  return state.h;
}

}  // namespace laconic
