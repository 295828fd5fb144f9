#include "layers/linear.h"

#include "core/ops/linear.h"
#include "layers/init.h"

namespace laconic {

Linear::Linear(Options o) {
  require<ShapeError>(o.in >= 1 && o.out >= 1, "Linear: in = ", o.in, ", out = ", o.out, " must be at least 1.");
  if (o.weight) {
    require<ShapeError>(o.weight->info.shape == Shape{o.out, o.in}, "Linear: the shared weight is ",
                        o.weight->info.shape, ", not ", Shape{o.out, o.in}, ".");
    share("weight", w_ = o.weight);
  } else {
    w_ = parameter("weight", {o.out, o.in}, Role::linear, o.init ? o.init : init::uniform_fan_in(o.in));
  }
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : init::uniform_fan_in(o.in));
  w_->info.output |= o.output;
  if (b_) b_->info.output = o.output;
}

Tensor Linear::forward(const Tensor& x) { return ops::linear(x, *w_, b_ ? b_->fresh() : Tensor()); }

Tensor Linear::forward_relu(const Tensor& x) {
  return call([&] { return ops::linear(x, *w_, b_ ? b_->fresh() : Tensor(), true); });
}

}  // namespace laconic
