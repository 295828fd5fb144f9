#include "core/raw.h"

#include <cstring>

#include "core/cpu/elementwise.h"
#include "core/cpu/layout.h"
#include "core/dispatch.h"

namespace laconic::raw {

void fill(const Tensor& y, float value) {
  on_device(y.device(), [&] { cpu::fill(y.data<float>(), value, y.elements()); });
  y.bump_version();
}

void add_into(const Tensor& y, const Tensor& x) {
  require<ShapeError>(x.shape() == y.shape(), "add: ", x.shape(), " to ", y.shape(), ".");
  const Tensor same = to_layout(x.value(), y.layout());
  on_device(y.device(), [&] { cpu::add(y.data<float>(), same.data<float>(), y.elements()); });
  y.bump_version();
}

void axpy(const Tensor& y, float a, const Tensor& x) {
  require<ShapeError>(x.shape() == y.shape() && x.layout() == y.layout(), "axpy: ", x.shape(), " to ", y.shape(), ".");
  on_device(y.device(), [&] { cpu::axpy(y.data<float>(), a, x.data<float>(), y.elements()); });
  y.bump_version();
}

void scale(const Tensor& y, float a) {
  on_device(y.device(), [&] { cpu::scale(y.data<float>(), a, y.elements()); });
  y.bump_version();
}

Tensor add(const Tensor& a, const Tensor& b) {
  require<ShapeError>(a.shape() == b.shape(), "add: shapes ", a.shape(), " and ", b.shape(), " differ.");
  const Tensor same = to_layout(b.value(), a.layout());
  Tensor y = Tensor::empty(a.shape(), DType::f32, a.device(), a.layout());
  on_device(a.device(), [&] { cpu::add(y.data<float>(), a.data<float>(), same.data<float>(), y.elements()); });
  return y;
}

Tensor to_layout(const Tensor& x, Layout layout) {
  if (x.layout() == layout) return x.value();
  require<ShapeError>(x.rank() == 4 && x.dtype() == DType::f32,
                      "layout: only float images [N, C, H, W] have layouts, not ", x.shape(), " ", x.dtype(), ".");
  const std::int64_t n = x.dim(0), c = x.dim(1), hw = x.dim(2) * x.dim(3);
  require<ShapeError>(layout != Layout::blocked16 || c % 16 == 0, "layout: ", c, " channels are not a multiple of 16.");
  const bool blocked = layout == Layout::blocked16 || x.layout() == Layout::blocked16;
  if (hw == 1 || (c == 1 && !blocked) || (c == 16 && layout != Layout::plain && x.layout() != Layout::plain))
    return x.relabelled(layout);
  Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), layout);
  on_device(x.device(), [&] { cpu::convert_layout(y.data<float>(), layout, x.data<float>(), x.layout(), n, c, hw); });
  return y;
}

bool all_finite(const Tensor& x) {
  return on_device(x.device(), [&] { return cpu::all_finite(x.data<float>(), x.elements()); });
}

double sum_of_squares(const Tensor& x) {
  return on_device(x.device(), [&] { return cpu::sum_of_squares(x.data<float>(), x.elements()); });
}

}  // namespace laconic::raw
