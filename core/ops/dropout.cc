#include "core/ops/dropout.h"

#include <algorithm>

#include "core/cpu/dropout.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// y = x times the mask: bytes where x is plain, factors in x's own layout otherwise.
void apply(const Tensor& y, const Tensor& x, const Tensor& mask, float scale) {
  on_device(x.device(), [&] {
    if (mask.dtype() == DType::u8)
      cpu::dropout_apply(y.data<float>(), x.data<float>(), mask.data<std::uint8_t>(), scale, x.elements());
    else
      cpu::multiply(y.data<float>(), x.data<float>(), mask.data<float>(), x.elements());
  });
}

/// Bytes for x in plain order.
void draw(std::uint8_t* mask, const Tensor& x, float p, const DropoutKey& key) {
  const std::int64_t samples = x.dim(key.time_first ? 1 : 0), per_sample = x.elements() / samples;
  const auto by_sample = [&](std::uint8_t* to) {
    cpu::dropout_mask(to, samples, per_sample, p, key.seed, key.layer, key.step, key.first_sample);
  };
  if (!key.time_first) return by_sample(mask);
  const Tensor drawn = Tensor::empty({samples, per_sample}, DType::u8);
  by_sample(drawn.data<std::uint8_t>());
  const std::int64_t steps = x.dim(0), width = per_sample / steps;
  for (std::int64_t t = 0; t < steps; ++t)
    for (std::int64_t b = 0; b < samples; ++b)
      std::copy_n(drawn.data<std::uint8_t>() + (b * steps + t) * width, width, mask + (t * samples + b) * width);
}

}  // namespace

Tensor dropout(const Tensor& x, float p, const DropoutKey& key) {
  require<ShapeError>(p >= 0 && p < 1, "dropout: p = ", p, " is not in [0, 1).");
  require<ShapeError>(!key.time_first || x.rank() >= 2, "dropout: x is ", x.shape(), ", not [T, B, ...].");
  if (p == 0 || x.elements() == 0) return x;
  const float scale = 1.0f / (1.0f - p);
  Tensor mask = Tensor::empty(x.shape(), DType::u8, x.device());
  on_device(x.device(), [&] { draw(mask.data<std::uint8_t>(), x, p, key); });
  if (x.layout() != Layout::plain) {
    const Tensor factors = Tensor::full(x.shape(), 1.0f, x.device());
    apply(factors, factors, mask, scale);
    mask = raw::to_layout(factors, x.layout());
  }
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  apply(y, x, mask, scale);
  return record("dropout", y, {x}, [mask, scale, layout = x.layout()](const Tensor& dy0, Grads& grads) {
    const Tensor converted = dy0.layout() == layout ? Tensor() : raw::to_layout(dy0, layout);
    const Tensor& dy = converted.defined() ? converted : dy0;
    Tensor dx = dy.sole_owner() ? dy : Tensor::empty(dy.shape(), DType::f32, dy.device(), layout);
    apply(dx, dy, mask, scale);
    grads.put(0, std::move(dx));
  });
}

}  // namespace laconic::ops
