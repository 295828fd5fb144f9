#include "layers/recurrent.h"

#include <string>

#include "core/ops/dropout.h"
#include "core/ops/linear.h"
#include "core/ops/reshape.h"
#include "layers/init.h"

namespace laconic {

Recurrent::Recurrent(const char* what, int gates, Options o) : what_(what), o_(o) {
  require<ShapeError>(o.in >= 1 && o.hidden >= 1 && o.layers >= 1, what, ": in = ", o.in, ", hidden = ", o.hidden,
                      ", layers = ", o.layers, " must be at least 1.");
  require<ShapeError>(o.dropout >= 0 && o.dropout < 1, what, ": dropout = ", o.dropout, " is not in [0, 1).");
  const std::int64_t width = gates * std::int64_t{o.hidden};
  const Initializer initializer = o.init ? o.init : init::uniform_fan_in(o.hidden);
  for (int l = 0; l < o.layers; ++l) {
    const std::string layer = "_l" + std::to_string(l);
    const std::int64_t in = l == 0 ? o.in : o.hidden;
    layers_.push_back({parameter("weight_ih" + layer, {width, in}, Role::recurrent, initializer),
                       parameter("weight_hh" + layer, {width, o.hidden}, Role::recurrent, initializer),
                       parameter("bias_ih" + layer, {width}, Role::bias, initializer),
                       parameter("bias_hh" + layer, {width}, Role::bias, initializer)});
  }
}

ops::RecurrentWeights Recurrent::weights(int layer) {
  const Layer& l = layers_[static_cast<std::size_t>(layer)];
  return {l.weight_hh->fresh(), l.bias_ih->fresh(), l.bias_hh->fresh()};
}

Tensor Recurrent::input_part(const Tensor& below, int layer) {
  const ForwardContext& c = context();
  Tensor x = below;
  if (layer > 0 && training() && c.dropout) {
    // Keys of their own within this module: no model has 2^16 modules.
    const auto key = static_cast<std::uint32_t>(position()) + (static_cast<std::uint32_t>(layer) << 16);
    x = ops::dropout(below, o_.dropout, {c.seed, key, c.step, c.first_sample, /*time_first=*/true});
  }
  const std::int64_t steps = x.dim(0), batch = x.dim(1);
  Parameter& weight = *layers_[static_cast<std::size_t>(layer)].weight_ih;
  const Tensor sums = ops::linear(ops::reshape(x, {steps * batch, x.dim(2)}), weight, {});
  return ops::reshape(sums, {steps, batch, sums.dim(1)});
}

Tensor Recurrent::initial(const Tensor& x, const Tensor& state) const {
  require<ShapeError>(x.rank() == 3 && x.dim(0) >= 1 && x.dim(1) >= 1 && x.dim(2) == o_.in, what_, ": x is ",
                      x.shape(), ", not [T, B, ", o_.in, "] with at least one step and one row.");
  const Shape shape{o_.layers, x.dim(1), o_.hidden};
  if (!state.defined()) return Tensor::zeros(shape, DType::f32, x.device());
  require<ShapeError>(state.shape() == shape, what_, ": x is ", x.shape(), " but the state is ", state.shape(),
                      ", not ", shape, ". Start from an empty state when the batch size changes.");
  return state;
}

Tensor Recurrent::of_layer(const Tensor& state, int layer) {
  return state.rows(layer, 1).view({state.dim(1), state.dim(2)});
}

}  // namespace laconic
