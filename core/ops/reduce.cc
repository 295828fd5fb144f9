#include "core/ops/reduce.h"

#include "core/kernels/elementwise.h"
#include "core/ops/common.h"

namespace laconic::ops {
namespace {

Tensor scaled_sum(const char* what, const Tensor& x, float factor) {
  const Tensor y = Tensor::empty({1}, DType::f32, x.device());
  on_device(
      x.device(), [&] { *y.data<float>() = static_cast<float>(cpu::sum(x.data<float>(), x.elements()) * factor); },
      [&] { cuda::sum(y.data<float>(), factor, x.data<float>(), x.elements()); });
  return record(what, y, {x}, [=, shape = x.shape()](const Tensor& dy, Grads& grads) {
    Tensor dx = Tensor::empty(shape, DType::f32, dy.device());
    LACONIC_KERNEL(dy.device(), fill_times(dx.data<float>(), factor, dy.data<float>(), dx.elements()));
    grads.put(0, std::move(dx));
  });
}

}  // namespace

Tensor sum(const Tensor& x) { return scaled_sum("sum", x, 1.0f); }

Tensor mean(const Tensor& x) {
  require<ShapeError>(x.elements() >= 1, "mean: x ", x.shape(), " has no elements.");
  return scaled_sum("mean", x, 1.0f / static_cast<float>(x.elements()));
}

Tensor mse(const Tensor& a, const Tensor& b) {
  require<ShapeError>(a.shape() == b.shape() && a.elements() >= 1, "mse: shapes ", a.shape(), " and ", b.shape(),
                      " must be the same, and not empty.");
  require_one_device("mse", {{"a", a}, {"b", b}});
  const Tensor difference = Tensor::like(a);
  difference.copy_from(a);
  raw::axpy(difference, -1.0f, raw::to_layout(b, a.layout()));
  const auto n = static_cast<double>(a.elements());
  const Tensor y = Tensor::empty({1}, DType::f32, a.device());
  on_device(
      a.device(),
      [&] { *y.data<float>() = static_cast<float>(cpu::sum_of_squares(difference.data<float>(), a.elements()) / n); },
      [&] {
        cuda::sum_of_squares(y.data<float>(), static_cast<float>(1 / n), difference.data<float>(), a.elements());
      });
  return record("mse", y, {a, b}, [=](const Tensor& dy, Grads& grads) {
    const float factor = 2.0f / static_cast<float>(n);
    for (int i : {0, 1}) {
      if (!grads.wants(i)) continue;
      Tensor d = Tensor::like(difference);
      LACONIC_KERNEL(d.device(), scale_times(d.data<float>(), difference.data<float>(), i == 0 ? factor : -factor,
                                             dy.data<float>(), d.elements()));
      grads.put(i, std::move(d));
    }
  });
}

}  // namespace laconic::ops
