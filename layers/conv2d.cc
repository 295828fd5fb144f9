#include "layers/conv2d.h"

#include "layers/init.h"

namespace laconic {

Conv2d::Conv2d(Options o) : o_{.stride = o.stride, .pad = o.pad, .dilation = o.dilation, .groups = o.groups} {
  require<ShapeError>(o.in >= 1 && o.out >= 1 && o.kernel >= 1 && o.stride >= 1 && o.pad >= 0 && o.dilation >= 1 &&
                          o.groups >= 1 && o.in % o.groups == 0 && o.out % o.groups == 0,
                      "Conv2d: in = ", o.in, ", out = ", o.out, ", kernel = ", o.kernel, ", stride = ", o.stride,
                      ", pad = ", o.pad, ", dilation = ", o.dilation, ", groups = ", o.groups,
                      ": all must be at least 1 (pad 0), and groups must divide in and out.");
  const std::int64_t fan_in = std::int64_t{o.in} / o.groups * o.kernel * o.kernel;
  w_ = parameter("weight", {o.out, o.in / o.groups, o.kernel, o.kernel}, Role::conv,
                 o.init ? o.init : init::uniform_fan_in(fan_in));
  if (o.bias) b_ = parameter("bias", {o.out}, Role::bias, o.init_bias ? o.init_bias : init::uniform_fan_in(fan_in));
}

Tensor Conv2d::forward(const Tensor& x) { return ops::conv2d(x, w_->fresh(), b_ ? b_->fresh() : Tensor(), o_); }

Tensor Conv2d::forward_relu(const Tensor& x) {
  ops::Conv2dOptions o = o_;
  o.relu = true;
  return call([&] { return ops::conv2d(x, w_->fresh(), b_ ? b_->fresh() : Tensor(), o); });
}

}  // namespace laconic
