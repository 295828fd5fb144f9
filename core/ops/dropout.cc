#include "core/ops/dropout.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/ops/common.h"
#include "core/base/random.h"

namespace laconic::inline ops {
namespace {

/// y = x times the mask, which has their layout: bytes, or factors.
void apply(const Tensor& y, const Tensor& x, const Tensor& mask, float scale) {
  if (mask.dtype() == DType::u8)
    LACONIC_KERNEL(x.device(),
                   dropout_apply(y.data<float>(), x.data<float>(), mask.data<std::uint8_t>(), scale, x.elements()));
  else
    LACONIC_KERNEL(x.device(),
                   multiply(y.data<float>(), x.data<float>(), mask.data<float>(), StridedWalk(x.elements())));
}

/// Bytes for x in plain order.
void draw(std::uint8_t* mask, const Tensor& x, float p, const DropoutKey& key) {
  const std::int64_t samples = x.dim(key.time_first ? 1 : 0), per_sample = x.elements() / samples;
  const auto by_sample = [&](std::uint8_t* to) { cpu::dropout_mask(to, samples, per_sample, dropout_mask_of(p, key)); };
  if (!key.time_first) return by_sample(mask);
  const Tensor drawn = Tensor::empty({samples, per_sample}, DType::u8);
  by_sample(drawn.data<std::uint8_t>());
  const std::int64_t steps = x.dim(0), width = per_sample / steps;
  for (std::int64_t t = 0; t < steps; ++t)
    for (std::int64_t b = 0; b < samples; ++b)
      std::copy_n(drawn.data<std::uint8_t>() + (b * steps + t) * width, width, mask + (t * samples + b) * width);
}

/// y = x times a new mask, which is returned.
Tensor forward_on_host(const Tensor& y, const Tensor& x, float p, float scale, const DropoutKey& key) {
  Tensor mask = Tensor::empty(x.shape(), DType::u8, x.device());
  on_device(x.device(), [&] { draw(mask.data<std::uint8_t>(), x, p, key); });
  if (x.layout() != Layout::plain) {
    const Tensor factors = Tensor::full(x.shape(), 1.0f, x.device());
    apply(factors, factors, mask, scale);
    mask = raw::to_layout(factors, x.layout());
  }
  apply(y, x, mask, scale);
  return mask;
}
/// Draws the mask and applies it in one kernel.
Tensor forward_on_cuda(const Tensor& y, const Tensor& x, float p, float scale, const DropoutKey& key) {
  const Tensor mask = Tensor::empty(x.shape(), DType::u8, x.device(), x.layout());
  const std::int64_t samples = x.dim(key.time_first ? 1 : 0), per_sample = x.elements() / samples;
  cuda::DropoutPlaces places{per_sample, per_sample, 0, 1};
  if (key.time_first) {
    const std::int64_t width = per_sample / x.dim(0);
    places = {width, width, samples * width, 1};
  } else if (x.layout() == Layout::channels_last) {
    places = {per_sample, x.dim(2) * x.dim(3), 1, x.dim(1)};
  }
  on_device(
      x.device(), [] {},
      [&] {
        cuda::dropout_forward(y.data<float>(), mask.data<std::uint8_t>(), x.data<float>(), scale, places, samples,
                              per_sample, dropout_mask_of(p, key));
      });
  return mask;
}

}  // namespace

DropoutMask dropout_mask_of(float p, const DropoutKey& key) {
  const auto mixed = philox({static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32),
                             static_cast<std::uint32_t>(Purpose::dropout), 0},
                            {0x6C61636Fu, 0x6E696321u});
  return {{mixed[0], mixed[1]},
          static_cast<std::uint32_t>(static_cast<double>(p) * 4294967296.0),
          static_cast<std::uint32_t>(key.step),
          key.layer,
          static_cast<std::uint32_t>(key.first_sample)};
}

Tensor dropout(const Tensor& x0, float p, const DropoutKey& key) {
  require<ShapeError>(p >= 0 && p < 1, "dropout: p = ", p, " is not in [0, 1).");
  require<ShapeError>(x0.rank() >= (key.time_first ? 2 : 1), "dropout: x is ", x0.shape(),
                      key.time_first ? ", not [T, B, ...]." : ", not [N, ...].");
  if (p == 0 || x0.elements() == 0) return x0;
  const Tensor x = floats("dropout", x0);
  const float scale = 1.0f / (1.0f - p);
  const Tensor y = Tensor::like(x);
  const auto forward = x.device().kind == Device::Kind::cuda ? forward_on_cuda : forward_on_host;
  const Tensor mask = forward(y, x, p, scale, key);
  return record("dropout", y, {x0}, [mask, scale](const Tensor& gradient, Grads& grads) {
    grads.put(0, elementwise_gradient(gradient, mask,
                                      [&](const Tensor& dx, const Tensor& dy) { apply(dx, dy, mask, scale); }));
  });
}

}  // namespace laconic::inline ops
