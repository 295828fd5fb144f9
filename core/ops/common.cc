#include "core/ops/common.h"

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/kernels/rows.h"

namespace laconic::inline ops {

Device require_one_device(const char* what, std::initializer_list<NamedOperand> operands) {
  const NamedOperand& first = *operands.begin();
  const Device device = first.tensor.device();
  Device of_result = device;
  for (const NamedOperand& o : operands) {
    if (!o.tensor.defined() || o.tensor.device() == device) [[likely]]
      continue;
    if (o.tensor.device() == kGhost) of_result = kGhost;
    if (device == kGhost || o.tensor.device() == kGhost) continue;
    require<ShapeError>(device.kind != Device::Kind::cuda && o.tensor.device().kind != Device::Kind::cuda, what, ": ",
                        first.name, " is on ", device, " but ", o.name, " is on ", o.tensor.device(),
                        ". Move the model and the data to one device.");
  }
  return of_result;
}

void require_real(const char* what, const Tensor& x) {
  require<ShapeError>(is_real(x.dtype()), what, ": x ", x.shape(), " is ", x.dtype(),
                      ", and only float32 is computed with: to_float(x) makes it that.");
}

Tensor floats(const char* what, const Tensor& x) {
  require_real(what, x);
  return raw::cast(x, DType::f32);
}

std::int64_t first_wrong(const Tensor& index, std::int64_t n) {
  if (index.device() == kGhost) return -1;
  return on_device(
      index.device(), [&] { return cpu::first_bad_label(index.data<std::int64_t>(), index.elements(), n); },
      [] { return std::int64_t{-1}; });
}

void require_images(const char* what, const Tensor& x) {
  require<ShapeError>(x.rank() == 4, what, ": x is ", x.shape(), ", not images [N, C, H, W].");
}

Tensor channelwise(const Tensor& x) {
  return x.rank() == 4 && x.layout() == Layout::plain ? raw::to_layout(x, Layout::channels_last) : x.value();
}

Tensor relu_mask(const Tensor& gradient, const Tensor& y) {
  return elementwise_gradient(gradient, y, [&](const Tensor& dx, const Tensor& dy) {
    LACONIC_REAL_KERNEL(y, relu_backward(dx.data<Real>(), dy.data<Real>(), y.data<Real>(), y.elements()));
  });
}

void weight_gradient(Grads& grads, int i, const Tensor& x, const Tensor& dy, std::int64_t rows, std::int64_t in,
                     std::int64_t width) {
  if (!grads.wants(i)) return;
  each_chunk(grads, i, {width, in}, dy.device(), [&](const Grads::Target& dw, std::int64_t first, std::int64_t count) {
    float* to = dw.tensor.data<float>() + first * in;
    on_device(
        dy.device(),
        [&] {
          cpu::linear_backward_weights(to, dw.add, x.data<float>(), dy.data<float>() + first, rows, in, count, width);
        },
        [&] {
          cuda::linear_backward_weights(to, dw.add, cuda::Factor(x), cuda::Factor(dy, first), rows, in, count, width);
        });
  });
}

}  // namespace laconic::inline ops
