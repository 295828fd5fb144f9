#include "core/raw.h"

#include <vector>

#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"

namespace laconic::raw {

void fill(const Tensor& y, float value) {
  LACONIC_KERNEL(y.device(), fill(y.data<float>(), value, y.elements()));
  y.bump_version();
}

void add_into(const Tensor& y, const Tensor& x) {
  require<ShapeError>(x.shape() == y.shape(), "add: ", x.shape(), " to ", y.shape(), ".");
  const bool widens = y.dtype() == DType::f32 && x.dtype() == DType::bf16 && y.device().kind == Device::Kind::cuda;
  const Tensor same = to_layout(widens ? x : cast(x, y.dtype()), y.layout());
  if (widens) {
    on_device(
        y.device(), [] {}, [&] { cuda::add(y.data<float>(), same.data<BFloat16>(), y.elements()); });
    return y.bump_version();
  }
  LACONIC_REAL_KERNEL(y, add(y.data<Real>(), same.data<Real>(), y.elements()));
  y.bump_version();
}

void add_into(Slice<float> y, Slice<const float> x) {
  LACONIC_KERNEL(y.device(), add(y.data(), x.data(), static_cast<std::int64_t>(y.size())));
}

void axpy(const Tensor& y, float a, const Tensor& x) {
  require<ShapeError>(x.shape() == y.shape() && x.layout() == y.layout(), "axpy: ", x.shape(), " to ", y.shape(), ".");
  LACONIC_KERNEL(y.device(), axpy(y.data<float>(), a, x.data<float>(), y.elements()));
  y.bump_version();
}

void scale(const Tensor& y, float a) {
  LACONIC_KERNEL(y.device(), scale(y.data<float>(), a, y.elements()));
  y.bump_version();
}

void increment(const Tensor& counter) {
  LACONIC_KERNEL(counter.device(), increment(counter.data<std::int64_t>()));
  counter.bump_version();
}

Tensor wide_sum(const Tensor& a, const Tensor& b) {
  if (b.dtype() == DType::bf16 && a.device().kind == Device::Kind::cuda) {
    require<ShapeError>(a.shape() == b.shape(), "add: shapes ", a.shape(), " and ", b.shape(), " differ.");
    const Tensor same = to_layout(b.value(), a.layout());
    const Tensor y = Tensor::empty(a.shape(), DType::f32, a.device(), a.layout());
    cuda_only([&] { cuda::add(y.data<float>(), a.data<BFloat16>(), same.data<BFloat16>(), y.elements()); });
    return y;
  }
  const Tensor y = cast(a, DType::f32);
  add_into(y, b);
  return y;
}

Tensor add(const Tensor& a, const Tensor& b) {
  require<ShapeError>(a.shape() == b.shape(), "add: shapes ", a.shape(), " and ", b.shape(), " differ.");
  const Tensor same = to_layout(b.value(), a.layout());
  Tensor y = Tensor::like(a);
  LACONIC_REAL_KERNEL(y, add(y.data<Real>(), a.data<Real>(), same.data<Real>(), y.elements()));
  return y;
}

Tensor to_layout(const Tensor& x, Layout layout) {
  if (x.layout() == layout) return x.value();
  require<ShapeError>(x.rank() == 4 && is_real(x.dtype()), "layout: only float images [N, C, H, W] have layouts, not ",
                      x.shape(), " ", x.dtype(), ".");
  const std::int64_t n = x.dim(0), c = x.dim(1), hw = x.dim(2) * x.dim(3);
  require<ShapeError>(layout != Layout::blocked16 || c % 16 == 0, "layout: ", c, " channels are not a multiple of 16.");
  const bool blocked = layout == Layout::blocked16 || x.layout() == Layout::blocked16;
  if (hw == 1 || (c == 1 && !blocked) || (c == 16 && layout != Layout::plain && x.layout() != Layout::plain))
    return x.relabelled(layout);
  if (x.dtype() == DType::bf16 && x.device().kind != Device::Kind::cuda)  // the CPU has kernels for floats alone
    return cast(to_layout(cast(x, DType::f32), layout), DType::bf16);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device(), layout);
  LACONIC_REAL_KERNEL(x, convert_layout(y.data<Real>(), layout, x.data<Real>(), x.layout(), n, c, hw));
  return y;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x.value();
  require<ShapeError>(is_real(x.dtype()) && is_real(dtype), "cast: ", x.dtype(), " to ", dtype, ".");
  Tensor y = Tensor::empty(x.shape(), dtype, x.device(), x.layout());
  if (dtype == DType::bf16)
    LACONIC_KERNEL(x.device(), cast(y.data<BFloat16>(), x.data<float>(), x.elements()));
  else
    LACONIC_KERNEL(x.device(), cast(y.data<float>(), x.data<BFloat16>(), x.elements()));
  return y;
}

Tensor rounded_parameter(const Tensor& w, DType dtype) {
  struct Rounded final : Derived {
    Tensor value;
  };
  if (w.dtype() == dtype) return w.value();
  auto* cache = dynamic_cast<Rounded*>(w.derived().get());
  if (!cache || cache->version != w.version()) {
    const auto made = std::make_shared<Rounded>();
    made->version = w.version();
    made->value = cast(w, dtype);
    w.derived() = made;
    cache = made.get();
  }
  return cache->value;
}

bool all_finite(const Tensor& x) {
  const Tensor floats = cast(x, DType::f32);
  return LACONIC_KERNEL(x.device(), all_finite(floats.data<float>(), x.elements()));
}

double sum_of_squares(const Tensor& x) {
  return LACONIC_KERNEL(x.device(), sum_of_squares(x.data<float>(), x.elements()));
}

double sum_of_squares(std::span<const Tensor> x) {
  if (x.empty()) return 0;
  return on_device(
      x[0].device(),
      [&] {
        double sum = 0;
        for (const Tensor& t : x) sum += cpu::sum_of_squares(t.data<float>(), t.elements());
        return sum;
      },
      [&] {
        std::vector<Slice<const float>> slices;
        for (const Tensor& t : x) slices.push_back(t.slice<float>());
        return cuda::sum_of_squares(slices);
      });
}

static void require_same(const char* where, const Tensor& w, const Tensor& x, const char* what) {
  require<ShapeError>(x.elements() == w.elements() && x.layout() == Layout::plain && w.layout() == Layout::plain, where,
                      ": the parameter is ", w.shape(), " ", w.layout(), " but its ", what, " is ", x.shape(), " ",
                      x.layout(), ". Both must be plain and of one size.");
  require<ShapeError>(x.device() == w.device(), where, ": the parameter is on ", w.device(), " but its ", what, " on ",
                      x.device(), ". Move one of them.");
}

void sgd(const Tensor& w, const Tensor& g, const Tensor& buffer, const SgdStep& step) {
  require_same("sgd", w, g, "gradient");
  if (buffer.defined()) require_same("sgd", w, buffer, "momentum");
  float* momentum = buffer.defined() ? buffer.data<float>() : nullptr;
  LACONIC_KERNEL(w.device(), sgd(w.data<float>(), g.data<float>(), momentum, w.elements(), step));
  w.bump_version();
}

void adam(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const AdamStep& step) {
  require_same("adam", w, g, "gradient");
  require_same("adam", w, m, "first moment");
  require_same("adam", w, v, "second moment");
  LACONIC_KERNEL(w.device(),
                 adam(w.data<float>(), g.data<float>(), m.data<float>(), v.data<float>(), w.elements(), step));
  w.bump_version();
}

void clamp(const Tensor& x, float limit) {
  LACONIC_KERNEL(x.device(), clamp(x.data<float>(), limit, x.elements()));
  x.bump_version();
}

}  // namespace laconic::raw
