#include "core/ops/reduce.h"

#include "core/cpu/elementwise.h"
#include "core/dispatch.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

Tensor scaled_sum(const char* what, const Tensor& x, float factor) {
  const double total = on_device(x.device(), [&] { return cpu::sum(x.data<float>(), x.elements()); });
  const Tensor y = Tensor::full({1}, static_cast<float>(total * factor), x.device());
  return record(what, y, {x}, [=, shape = x.shape()](const Tensor& dy, Grads& grads) {
    grads.put(0, Tensor::full(shape, factor * dy.item(), dy.device()));
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
  const Tensor difference = Tensor::empty(a.shape(), DType::f32, a.device(), a.layout());
  difference.copy_from(a);
  raw::axpy(difference, -1.0f, raw::to_layout(b, a.layout()));
  const float n = static_cast<float>(a.elements());
  const Tensor y = Tensor::full(
      {1}, static_cast<float>(raw::sum_of_squares(difference) / static_cast<double>(a.elements())), a.device());
  return record("mse", y, {a, b}, [=](const Tensor& dy, Grads& grads) {
    const float scale = 2.0f * dy.item() / n;
    for (int i : {0, 1}) {
      if (!grads.wants(i)) continue;
      Tensor d = Tensor::empty(difference.shape(), DType::f32, difference.device(), difference.layout());
      d.copy_from(difference);
      raw::scale(d, i == 0 ? scale : -scale);
      grads.put(i, std::move(d));
    }
  });
}

}  // namespace laconic::ops
